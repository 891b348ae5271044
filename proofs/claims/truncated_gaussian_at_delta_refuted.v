Theorem certified : exp epsilon * RInt (density scale lower upper other) $low $high + delta
  < RInt (density scale lower upper answer) $low $high.
Proof. apply refuted_event; [lra | lra |]. unfold part; less. Qed.
