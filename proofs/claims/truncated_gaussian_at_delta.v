Lemma upward : all_thresholds scale farthest epsilon delta lower upper first last.
Proof. $upward. Qed.
Lemma downward : all_thresholds scale farthest epsilon delta (- upper) (- lower) (- last) (- first).
Proof. $downward. Qed.
Theorem certified : forall x x' event c d, $near
  lower <= c <= d -> d <= upper -> test event ->
  ex_RInt (fun y => density scale lower upper x y * event y) c d ->
  ex_RInt (fun y => density scale lower upper x' y * event y) c d ->
  RInt (fun y => density scale lower upper x y * event y) c d
    <= exp epsilon * RInt (fun y => density scale lower upper x' y * event y) c d + delta.
Proof.
  intros. apply truncated_gaussian_tests with (first := first) (last := last) (s := farthest); try assumption;
    first [exact upward | exact downward | near].
Qed.
