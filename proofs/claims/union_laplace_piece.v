Lemma $name : forall a, $low <= a <= $high ->
  exp (farthest / scale) * mass scale spans $more <= exp epsilon * mass scale spans $less.
Proof. intros a Ha. cbn [mass]. rewrite $sides by lra. halving a. Qed.
