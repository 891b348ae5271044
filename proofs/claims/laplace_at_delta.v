Lemma upward : forall a, first <= a <= last - farthest -> closed_form scale lower upper farthest epsilon delta a.
Proof. $upward. Qed.
Lemma downward : forall a, - last <= a <= - first - farthest ->
  closed_form scale (option_map Ropp upper) (option_map Ropp lower) farthest epsilon delta a.
Proof. $downward. Qed.
Theorem certified : forall x x' event c d, $near
  above lower c -> below upper d -> c <= d -> test event ->
  ex_RInt (fun y => density scale lower upper x y * event y) c d ->
  ex_RInt (fun y => density scale lower upper x' y * event y) c d ->
  RInt (fun y => density scale lower upper x y * event y) c d
    <= exp epsilon * RInt (fun y => density scale lower upper x' y * event y) c d + delta.
Proof.
  intros. apply truncated_laplace_tests with (first := first) (last := last) (s := farthest); try assumption;
    first [exact upward | exact downward | exact I | simpl; lra | near].
Qed.
