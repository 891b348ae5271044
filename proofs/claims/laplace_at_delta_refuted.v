Theorem certified : exp epsilon * at_most scale $law $other $cut + delta < at_most scale $law $answer $cut.
Proof.
  unfold at_most, mass, past, from_lower, to_upper, option_map; cbv beta iota.
  rewrite (UnboundedLaplace.at_most_above scale ($cut - $answer)), (at_most_below scale ($cut - $other)) by lra. less.
Qed.
