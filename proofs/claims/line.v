Lemma enough : $enough.
Proof. $proof. Qed.
Theorem certified : forall x x' event P Q, $near test event ->
  rejects (density scale x) event P -> rejects (density scale x') event Q -> P <= exp epsilon * Q + delta.
Proof.
  intros x x' event P Q. intros. eapply $lemma with (s := farthest) (x := x) (x' := x') (f := event);
    try eassumption; first [exact enough | near].
Qed.
