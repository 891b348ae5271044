Theorem certified :
  exp epsilon * density scale lower upper ($other) $answer < density scale lower upper $answer $answer.
Proof.
  apply refuted_$side; unfold above, below, apart, mass, past, from_lower, to_upper; cbv beta iota; try exact I;
    first [lra | less].
Qed.
