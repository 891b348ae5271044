Theorem certified : exp epsilon * truncated scale spans other y < truncated scale spans answer y.
Proof.
  apply refuted; [lra | simpl; repeat split; lra | discriminate | lra |]. replace (Rabs (answer - other)) with farthest by (rewrite $sign by lra; lra).
  cbn [mass]. rewrite $sides by lra. less.
Qed.
