Theorem certified : exp epsilon * density scale lower upper $answer $y < density scale lower upper ($other) $y.
Proof.
  apply $lemma; [lra | lra |]. unfold moment, mass, weight.
$moments  less.
Qed.
