Lemma $name : forall a, $low <= a <= $high ->
  exp (farthest / scale) * mass scale spans (a + $more) <= exp epsilon * mass scale spans (a + $less).
Proof.
  apply piece with (sides := [$one]) (sides' := [$two]); [lra | simpl; lra | simpl; lra |].
  fine_computed $bits%positive.
Qed.
