Theorem certified : forall x x' y, $near
  density scale lower upper x y <= exp epsilon * density scale lower upper x' y.
Proof.
  intros. apply all_neighbours with (s := farthest); near.
Qed.
