Theorem certified : exp epsilon * truncated scale spans other y < truncated scale spans answer y.
Proof.
  apply refuted; [lra | simpl; repeat split; lra | discriminate | lra |]. replace (Rabs (answer - other)) with farthest by (rewrite $sign by lra; lra).
  rewrite (mass_on_piece scale answer answer answer) with (sides := [$one]) by (simpl; lra).
  rewrite (mass_on_piece scale other other other) with (sides := [$two]) by (simpl; lra). cbn [total flat rising falling]. less.
Qed.
