Theorem certified_events : forall x x' f c d, $near $inside c <= d -> (forall y, c <= y <= d -> 0 <= f y) ->
  ex_RInt (fun y => $law x y * f y) c d ->
  ex_RInt (fun y => $law x' y * f y) c d ->
  RInt (fun y => $law x y * f y) c d
    <= exp epsilon * RInt (fun y => $law x' y * f y) c d.
Proof.
  intros; apply events; try assumption; [left; apply exp_pos |]. intros y Hy. apply certified; try assumption; lra.
Qed.
