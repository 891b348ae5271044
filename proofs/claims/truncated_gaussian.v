Lemma upward :
  moment scale lower upper last <= exp epsilon * moment scale lower upper (last - farthest).
Proof. apply moments_at_most; [lra | unfold tilt, part; no_more]. Qed.
Lemma downward :
  moment scale (- upper) (- lower) (- first) <= exp epsilon * moment scale (- upper) (- lower) (- (first + farthest)).
Proof. $downward. Qed.
Theorem certified : forall x x' y, $near lower <= y <= upper ->
  density scale lower upper x y <= exp epsilon * density scale lower upper x' y.
Proof.
  intros. apply truncated_gaussian with (first := first) (last := last) (s := farthest); try assumption;
    first [exact upward | exact downward | near].
Qed.
