Definition inputs : list Z := [$inputs]%Z.
Definition prior : list Z := [$prior]%Z.
Definition prices : list Z := [$prices]%Z.
Definition outputs : list Z := [$outputs]%Z.
Definition backs : list nat := [$backs]%nat.
Definition inside (x : R) : Prop := $inside.
Theorem certified : forall (I : (R -> R) -> R -> Prop) (p : R -> R -> R) (error : R -> R), expectation I ->
  (forall x y, inside x -> 0 <= p x y) -> (forall x, inside x -> I (p x) 1) ->
  (forall x x' y, inside x -> inside x' -> Rabs (x - x') <= sensitivity -> p x y <= exp epsilon * p x' y) ->
  (forall x, inside x -> I (fun y => $loss * p x y) (error x)) ->
  exists x, inside x /\ value <= error x.
Proof.
  intros. apply limit with (squared := $squared) (eps := epsilon) (sensitivity := sensitivity) (unit := $unit%Z) (s := $apart%Z)
    (d := $d%Z) (gap := $gap%Z) (rise := ($rise)%Z) (fall := ($fall)%Z) (inputs := inputs) (prior := prior) (prices := prices)
    (outputs := outputs) (backs := backs) (I := I) (p := p);
    lazymatch goal with
    | |- encloses _ _ _ => split; cbn [fst snd]; apply Rminus_le; computed bounded $bits%positive
    | |- forall r : nat, _ => $located
    | |- _ /\ _ => split; vm_compute; reflexivity
    | |- @eq bool _ true => vm_cast_no_check (eq_refl true)
    | |- (_ < _)%Z => vm_compute; reflexivity
    | |- context [fold_right _ _ prior] => unfold slack;
        set (a := fold_right _ _ prior); set (b := fold_right _ _ prices); vm_compute in a, b; unfold a, b; lra
    | |- _ => first [assumption | lra]
    end.
Qed.
