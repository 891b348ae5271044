Theorem certified : forall x x' y, $near
  density scale lower upper x y <= exp epsilon * density scale lower upper x' y.
Proof.
  intros. apply $theorem with (first := first) (last := last) (s := farthest); try assumption; try near;
    unfold above, below, apart, mass, past, from_lower, to_upper; cbv beta iota; first [exact I | lra | no_more].
Qed.
