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

(** Sequential composition: two independent answers about the same people. *)
Theorem composition : forall (p q p' q' : R -> R) k k' y z, 0 <= p y -> 0 <= k' * q' z -> p y <= k * q y -> p' z <= k' * q' z ->
  p y * p' z <= (k * k') * (q y * q' z).
Proof.
  intros. apply Rle_trans with (p y * (k' * q' z)); [now apply Rmult_le_compat_l|].
  apply Rle_trans with (k * q y * (k' * q' z)); [now apply Rmult_le_compat_r | right; ring].
Qed.

Corollary composition_of_epsilons : forall (p q p' q' : R -> R) e e' y z, 0 <= p y -> 0 <= q' z ->
  p y <= exp e * q y -> p' z <= exp e' * q' z -> p y * p' z <= exp (e + e') * (q y * q' z).
Proof.
  intros. rewrite exp_plus. apply composition; try assumption.
  apply Rmult_le_pos; [left; apply exp_pos | assumption].
Qed.

(** What neighbouring answers are, in one of the forms that claims have. *)
Ltac near := first [assumption | apply Rabs_le; lra | lra].
