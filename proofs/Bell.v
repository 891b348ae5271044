(** The Gaussian bell: its integral, which has no closed form, and that over a half-line. *)
From Coq Require Import Reals ZArith Lra Psatz Lia.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy.
Open Scope R_scope.

Definition bell (z : R) : R := exp (- (z ^ 2) / 2).

(** The integral from 0 to infinity. *)
Definition half : R := real (Lim_seq (fun n => RInt bell 0 (INR n))).

Lemma continuous_bell : forall z, continuous bell z.
Proof. intros. apply continuity_pt_filterlim, derivable_continuous_pt. unfold bell, Rdiv. reg. Qed.

Lemma integrable : forall a c, ex_RInt bell a c.
Proof. intros. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros. apply continuous_bell. Qed.

Lemma chasles : forall a c d, RInt bell a c + RInt bell c d = RInt bell a d.
Proof. intros. exact (RInt_Chasles (V := R_CompleteNormedModule) bell a c d (integrable a c) (integrable c d)). Qed.

Lemma integral_pos : forall a c, a <= c -> 0 <= RInt bell a c.
Proof. intros. apply RInt_ge_0; [assumption | apply integrable |]. intros. left. apply exp_pos. Qed.

(** Beyond T > 0 the bell is below (y / T) exp(-y^2 / 2), whose integral is known. *)
Lemma tail : forall T c, 0 < T <= c -> RInt bell T c <= bell T / T.
Proof.
  intros T c H. set (g := fun y => y * bell y / T).
  assert (G : is_RInt g T c (- bell c / T - - bell T / T)).
  { apply (is_RInt_derive (V := R_CompleteNormedModule) (fun y => - bell y / T)).
    - intros. unfold g, bell. auto_derive; [trivial | unfold Rdiv; simpl; field; lra].
    - intros. apply continuity_pt_filterlim, derivable_continuous_pt. unfold g, bell, Rdiv. reg. }
  apply Rle_trans with (- bell c / T - - bell T / T).
  - rewrite <- (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ G).
    apply RInt_le; [lra | apply integrable | now exists (- bell c / T - - bell T / T) |].
    intros y Hy. unfold g. assert (P : 0 < bell y) by apply exp_pos.
    apply Rmult_le_reg_r with T; [lra|]. replace (y * bell y / T * T) with (y * bell y) by (field; lra). nra.
  - assert (0 < bell c) by apply exp_pos. assert (0 < / T) by (apply Rinv_0_lt_compat; lra). unfold Rdiv. nra.
Qed.

Lemma bell_le_1 : forall z, bell z <= 1.
Proof. intro. apply exp_le_1. assert (0 <= z ^ 2) by apply pow2_ge_0. lra. Qed.

Lemma bounded : forall n, RInt bell 0 (INR n) <= 2.
Proof.
  intro n. rewrite <- (chasles 0 1). assert (A : RInt bell 0 1 <= 1).
  { apply Rle_trans with (RInt (fun _ => 1) 0 1).
    - apply RInt_le; [lra | apply integrable | apply ex_RInt_const |]. intros. apply bell_le_1.
    - rewrite (RInt_const (V := R_CompleteNormedModule)). unfold scal; simpl; unfold mult; simpl. lra. }
  destruct n as [|n].
  - simpl. assert (P := integral_pos 0 1 ltac:(lra)). assert (C := chasles 0 1 0).
    rewrite (RInt_point (V := R_CompleteNormedModule)) in C. unfold zero in C; simpl in C. lra.
  - assert (1 <= INR (S n)) by (rewrite S_INR; assert (0 <= INR n) by apply pos_INR; lra).
    assert (B := tail 1 (INR (S n)) ltac:(lra)). assert (K := bell_le_1 1). unfold Rdiv in B. rewrite Rinv_1 in B. lra.
Qed.

Lemma converges : ex_finite_lim_seq (fun n => RInt bell 0 (INR n)).
Proof.
  apply ex_finite_lim_seq_incr with 2; [|apply bounded]. intro n. rewrite <- (chasles 0 (INR n) (INR (S n))).
  assert (P := integral_pos (INR n) (INR (S n)) ltac:(rewrite S_INR; lra)). lra.
Qed.

Lemma half_is_limit : is_lim_seq (fun n => RInt bell 0 (INR n)) half.
Proof. apply Lim_seq_correct'. exact converges. Qed.

Lemma unbounded : forall T, exists N, T <= INR N.
Proof.
  intro T. exists (Z.to_nat (up T)). destruct (archimed T) as [H _]. destruct (Z_le_dec 0 (up T)) as [P|P].
  - rewrite INR_IZR_INZ, Z2Nat.id by assumption. lra.
  - assert (IZR (up T) <= 0) by (apply IZR_le; lia). assert (0 <= INR (Z.to_nat (up T))) by apply pos_INR. lra.
Qed.

Lemma half_above : forall T, RInt bell 0 T <= half.
Proof.
  intro T. destruct (unbounded T) as [N HN].
  apply (is_lim_seq_le_loc (fun _ => RInt bell 0 T) (fun n => RInt bell 0 (INR n)) (RInt bell 0 T) half);
    [|apply is_lim_seq_const | exact half_is_limit].
  exists N. intros n Hn. apply le_INR in Hn. rewrite <- (chasles 0 T (INR n)).
  assert (P := integral_pos T (INR n) ltac:(lra)). lra.
Qed.

Lemma half_below : forall T, 0 < T -> half <= RInt bell 0 T + bell T / T.
Proof.
  intros T HT. destruct (unbounded T) as [N HN].
  apply (is_lim_seq_le_loc (fun n => RInt bell 0 (INR n)) (fun _ => RInt bell 0 T + bell T / T) half (RInt bell 0 T + bell T / T));
    [|exact half_is_limit | apply is_lim_seq_const].
  exists N. intros n Hn. apply le_INR in Hn. rewrite <- (chasles 0 T (INR n)).
  assert (P := tail T (INR n) ltac:(lra)). lra.
Qed.

Lemma half_pos : 0 < half.
Proof.
  apply Rlt_le_trans with (RInt bell 0 1); [|apply half_above].
  apply RInt_gt_0; [lra | intros; apply exp_pos | intros; apply continuous_bell].
Qed.

Lemma even : forall T, RInt bell 0 (- T) = - RInt bell 0 T.
Proof.
  intro T. assert (J := RInt_correct (V := R_CompleteNormedModule) bell 0 (- T) (integrable 0 (- T))).
  replace 0 with (- 0) in J at 1 by ring. apply (is_RInt_comp_opp (V := R_NormedModule)) in J.
  apply (is_RInt_opp (V := R_NormedModule)) in J.
  assert (K : is_RInt bell 0 T (opp (RInt bell 0 (- T)))).
  { revert J. apply is_RInt_ext. intros y _. rewrite opp_opp. unfold bell. f_equal. f_equal. f_equal. ring. }
  apply (is_RInt_unique (V := R_CompleteNormedModule)) in K. unfold opp in K; simpl in K. lra.
Qed.
