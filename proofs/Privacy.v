(** What is proved: a bound on densities or on weights is a bound on every event and on every test. *)
From Coq Require Import Reals Lra List.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Open Scope R_scope.

(** [q] is within a factor of [p], output by output, on the set [S] of outputs. *)
Definition within (S : R -> Prop) (k : R) (p q : R -> R) : Prop := forall y, S y -> p y <= k * q y.

Lemma exp_le : forall x y, x <= y -> exp x <= exp y.
Proof. intros x y [H|H]; [left; now apply exp_increasing | right; now subst]. Qed.

Lemma exp_le_1 : forall x, x <= 0 -> exp x <= 1.
Proof. intros. rewrite <- exp_0. now apply exp_le. Qed.

Lemma exp_ge_1 : forall x, 0 <= x -> 1 <= exp x.
Proof. intros. rewrite <- exp_0. now apply exp_le. Qed.

Lemma div_pos : forall b, 0 < b -> 0 < / b.
Proof. intros. now apply Rinv_0_lt_compat. Qed.

(** From densities to events: [f] is the probability that the test rejects at the output [y], so 0 or 1 for an event. *)
Theorem events : forall p q f k l u, 0 <= k -> l <= u -> within (fun y => l <= y <= u) k p q ->
  (forall y, l <= y <= u -> 0 <= f y) ->
  ex_RInt (fun y => p y * f y) l u -> ex_RInt (fun y => q y * f y) l u ->
  RInt (fun y => p y * f y) l u <= k * RInt (fun y => q y * f y) l u.
Proof.
  intros p q f k l u Hk Hlu Hw Hf Hp Hq.
  replace (k * RInt (fun y => q y * f y) l u) with (RInt (fun y => k * (q y * f y)) l u)
    by exact (RInt_scal (V := R_CompleteNormedModule) (fun y => q y * f y) l u k Hq).
  apply RInt_le; [exact Hlu | exact Hp | exact (ex_RInt_scal (V := R_NormedModule) _ l u k Hq) |].
  intros y [H1 H2]. assert (W := Hw y ltac:(lra)). assert (F := Hf y ltac:(lra)).
  apply Rle_trans with (k * q y * f y); [now apply Rmult_le_compat_r | right; ring].
Qed.

(** The same for outputs that are atoms: weights of a list of outputs, and a test on them. *)
Fixpoint total (w : R -> R) (f : R -> R) (ys : list R) : R :=
  match ys with [] => 0 | y :: rest => w y * f y + total w f rest end.

Theorem events_of_atoms : forall (p q f : R -> R) k ys,
  (forall y, In y ys -> p y <= k * q y) -> (forall y, In y ys -> 0 <= f y) -> total p f ys <= k * total q f ys.
Proof.
  induction ys as [|y ys IH]; simpl; intros Hw Hf; [lra|].
  assert (H1 := Hw y (or_introl eq_refl)). assert (H2 := Hf y (or_introl eq_refl)).
  assert (H3 := IH (fun z Hz => Hw z (or_intror Hz)) (fun z Hz => Hf z (or_intror Hz))).
  assert (p y * f y <= k * q y * f y) by now apply Rmult_le_compat_r. lra.
Qed.

(** Sequential composition: any number of answers about the same people, each of a mechanism that may depend on the
    outputs before it. The density of all outputs together is a product, and the epsilons add. *)
Fixpoint joint (laws : list (list R -> R -> R)) (past outputs : list R) : R :=
  match laws, outputs with law :: laws, y :: outputs => law past y * joint laws (y :: past) outputs | _, _ => 1 end.

Fixpoint private (epsilons : list R) (ps qs : list (list R -> R -> R)) : Prop :=
  match epsilons, ps, qs with
  | e :: epsilons, p :: ps, q :: qs =>
    (forall past y, 0 <= p past y /\ 0 <= q past y /\ p past y <= exp e * q past y) /\ private epsilons ps qs
  | [], [], [] => True
  | _, _, _ => False
  end.

Theorem sequential : forall epsilons ps qs past outputs, private epsilons ps qs -> length outputs = length ps ->
  0 <= joint ps past outputs <= exp (fold_right Rplus 0 epsilons) * joint qs past outputs.
Proof.
  induction epsilons as [|e epsilons IH]; intros [|p ps] [|q qs] past outputs H L; try contradiction; simpl.
  - rewrite exp_0. lra.
  - destruct outputs as [|y outputs]; [discriminate|]. simpl in *. injection L as L. destruct H as [H Hs].
    destruct (H past y) as [P [Q W]]. destruct (IH ps qs (y :: past) outputs Hs L) as [J K]. rewrite exp_plus.
    split; [now apply Rmult_le_pos|]. apply Rle_trans with (p past y * (exp (fold_right Rplus 0 epsilons) * joint qs (y :: past) outputs)).
    + now apply Rmult_le_compat_l.
    + assert (0 <= exp (fold_right Rplus 0 epsilons) * joint qs (y :: past) outputs) by lra.
      apply Rle_trans with (exp e * q past y * (exp (fold_right Rplus 0 epsilons) * joint qs (y :: past) outputs));
        [now apply Rmult_le_compat_r | right; ring].
Qed.

(** What neighbouring answers are, in one of the forms that claims have. *)
Ltac near := first [assumption | apply Rabs_le; lra | lra].
