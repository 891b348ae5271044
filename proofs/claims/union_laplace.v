$pieces
Theorem certified : forall x x' y, $near
  truncated scale spans x y <= exp epsilon * truncated scale spans x' y.
Proof.
  intros. apply union_laplace with (first := first) (last := last) (s := farthest);
    first [assumption | discriminate | (simpl; repeat split; lra) | near |
      (intros a Ha; replace (mass scale spans a) with (mass scale spans (a + 0)) by (f_equal; ring); first [$upward | $downward])].
Qed.
