Theorem certified : exp epsilon * density scale lower upper $answer $y < density scale lower upper ($other) $y.
Proof. apply $lemma; [lra | lra |]. apply moments_above; [lra | unfold tilt, part; less]. Qed.
