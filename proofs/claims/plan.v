Lemma enough : found epsilon (mu / 1) (mu / 1 / 2 - epsilon / (mu / 1)) <= 2 * half * delta.
Proof. apply found_at_most. no_more. Qed.
Theorem certified : $squares <= mu ^ 2 /\
  forall x x' event P Q, Rabs (x - x') <= mu -> test event ->
    rejects (density 1 x) event P -> rejects (density 1 x') event Q -> P <= exp epsilon * Q + delta.
Proof.
  split; [no_more | intros]. apply gaussian_tests with (sigma := 1) (s := mu) (x := x) (x' := x') (f := event);
    try assumption; first [exact enough | lra].
Qed.
