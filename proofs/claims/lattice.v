Theorem certified : forall i j, $near
  (forall y, weight rate $k $r (y - i) <= exp epsilon * weight rate $k $r (y - j)) /\
  (forall z, beyond rate $k $r (z - i) <= exp epsilon * beyond rate $k $r (z - j)) /\
  (forall z, beyond rate $k $r (i - z) <= exp epsilon * beyond rate $k $r (j - z)).
Proof.
  intros i j$names. assert (Hd : (Z.abs (i - j) <= $levels * $k)%Z) by ($close).
  repeat split; intros; [apply lattice with (m := $levels%Z) | apply clamped with (m := $levels%Z)
    | apply clamped_below with (m := $levels%Z)]; first [assumption | lia | lra].
Qed.
