Lemma upward :
  moment scale lower upper last <= exp epsilon * moment scale lower upper (last - farthest).
Proof.
  unfold moment, mass, weight.
$to_last  no_more.
Qed.
Lemma downward :
  moment scale (- upper) (- lower) (- first) <= exp epsilon * moment scale (- upper) (- lower) (- (first + farthest)).
Proof.
  unfold moment, mass, weight.
$to_first  no_more.
Qed.
Theorem certified : forall x x' y, $near lower <= y <= upper ->
  density scale lower upper x y <= exp epsilon * density scale lower upper x' y.
Proof.
  intros. apply truncated_gaussian with (first := first) (last := last) (s := farthest); try assumption;
    first [exact upward | exact downward | near].
Qed.
