Definition p : list Z := $p.
Definition q : list Z := $q.
Theorem certified :
  let P w := IZR (weight_of (best_event $n $d p q) w) / IZR $total in exp epsilon * P q + delta < P p.
Proof.
  apply refuted; [lia | lia | (apply Rminus_le; computed bounded $bits%positive) | vm_compute; discriminate |].
  replace (excess $n $d p q) with $excess%Z by (vm_compute; reflexivity). lra.
Qed.
