Definition rows : list (list Z) := [$rows].
Definition reach : list nat := [$reach]%nat.
Definition cells : list cell := [$cells]%Z.
Theorem certified : forall i j x x' event, (i < $count)%nat -> (j < $count)%nat ->
  goes $unit (nth i cells (None, None, true)) x -> goes $unit (nth j cells (None, None, true)) x' ->
  Rabs (x - x') <= sensitivity ->
  let P x := IZR (weight_of event (nth x rows [])) / IZR $total in P i <= exp epsilon * P j + delta.
Proof.
  intros i j x x' event Hi Hj Gi Gj Hx.
  apply table_of_answers with (n := $low%Z) (d := $d%Z) (most := $most%Z) (width := $width%nat) (rows := rows) (reach := reach)
    (unit := $unit%Z) (s := $apart%Z) (cells := cells) (x := x) (x' := x');
    first [assumption | vm_compute; reflexivity | lia | lra | (apply Rminus_le; computed bounded $bits%positive)].
Qed.
