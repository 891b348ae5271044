Theorem certified : exp epsilon * weight rate $k $r (0 - $levels * $k) < weight rate $k $r (0 - 0).
Proof.
  apply refuted; first [lia | lra].
Qed.
