Theorem certified : exp epsilon * at_most scale $other + delta < at_most scale $answer.
Proof.
  $proof less.
Qed.
