(** Noise on a lattice: discrete Laplace and staircase noise, whose levels fall by a factor of exp(-rate). *)
From Coq Require Import Reals ZArith Lra Lia.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy.
Open Scope R_scope.

(** The level of the outcome x: plateaus of k steps, of which the highest has 2 r - 1. With k = r = 1 it is |x|. *)
Definition level (k r x : Z) : Z := ((Z.abs x + k - r) / k)%Z.

(** The probability of x, up to a constant that is the same for every true answer, since the lattice is endless. *)
Definition weight (rate : R) (k r x : Z) : R := exp (- (rate * IZR (level k r x))).

Lemma level_moves : forall k r x x' m, (0 < k)%Z -> (Z.abs (x - x') <= m * k)%Z -> (level k r x' <= level k r x + m)%Z.
Proof.
  intros k r x x' m Hk Hd. unfold level. rewrite <- Z.div_add by lia. apply Z.div_le_mono; lia.
Qed.

Section Theorem_.
Variables (rate eps : R) (k r m : Z).
Hypothesis Hrate : 0 <= rate.
Hypothesis Hk : (0 < k)%Z.
Hypothesis Heps : rate * IZR m <= eps.

(** Neighbouring answers, at most m k steps apart, give every outcome y with weights within a factor of exp(eps). *)
Theorem lattice : forall x x' y, (Z.abs (x - x') <= m * k)%Z -> weight rate k r (y - x) <= exp eps * weight rate k r (y - x').
Proof.
  intros x x' y Hd. unfold weight. rewrite <- exp_plus. apply exp_le.
  assert (H := level_moves k r (y - x) (y - x') m Hk ltac:(lia)). apply IZR_le in H. rewrite plus_IZR in H. nra.
Qed.

(** Clamped outputs: an end of the support has all outcomes from there on. *)
Definition beyond (z : Z) : R := Series (fun n => weight rate k r (z + Z.of_nat n)).

Hypothesis Hpos : 0 < rate.
Hypothesis Hr : (1 <= r <= k)%Z.

Lemma level_grows : forall x, IZR (Z.abs x) / IZR k - 1 <= IZR (level k r x).
Proof.
  intro x. assert (K : 0 < IZR k) by now apply IZR_lt.
  assert (H : (Z.abs x <= k * (level k r x + 1))%Z).
  { unfold level. assert (D := Z.mul_succ_div_gt (Z.abs x + k - r) k Hk). unfold Z.succ in D. lia. }
  apply IZR_le in H. rewrite mult_IZR, plus_IZR in H.
  apply Rmult_le_reg_l with (1 := K). unfold Rdiv. field_simplify; lra.
Qed.

Lemma summable : forall z, ex_series (fun n => weight rate k r (z + Z.of_nat n)).
Proof.
  intro z. assert (K : 0 < IZR k) by now apply IZR_lt. set (q := exp (- (rate / IZR k))).
  set (C := exp (rate * (IZR (Z.abs z) / IZR k + 1))).
  assert (Hq : Rabs q < 1).
  { assert (0 < rate / IZR k) by now apply Rdiv_lt_0_compat. rewrite Rabs_right by (left; apply exp_pos).
    unfold q. rewrite <- exp_0. apply exp_increasing. lra. }
  apply (ex_series_le (K := R_AbsRing) (V := R_CompleteNormedModule) _ (fun n => C * q ^ n)).
  - intro n. unfold norm; simpl; unfold abs; simpl. rewrite Rabs_right by (left; apply exp_pos).
    assert (E : q ^ n = exp (- (rate / IZR k) * INR n)).
    { unfold q. induction n as [|n IH]; [simpl; now rewrite Rmult_0_r, exp_0|].
      rewrite S_INR, <- tech_pow_Rmult, IH, <- exp_plus. f_equal. ring. }
    rewrite E. unfold C, weight. rewrite <- exp_plus. apply exp_le.
    assert (G := level_grows (z + Z.of_nat n)).
    assert (A : (Z.of_nat n - Z.abs z <= Z.abs (z + Z.of_nat n))%Z) by lia. apply IZR_le in A.
    rewrite minus_IZR, <- INR_IZR_INZ in A.
    assert (B : (INR n - IZR (Z.abs z)) / IZR k <= IZR (Z.abs (z + Z.of_nat n)) / IZR k).
    { unfold Rdiv. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | assumption]. }
    assert (L : (INR n - IZR (Z.abs z)) / IZR k - 1 <= IZR (level k r (z + Z.of_nat n))) by lra.
    apply (Rmult_le_compat_l rate) in L; [|lra].
    replace (rate * ((INR n - IZR (Z.abs z)) / IZR k - 1))
      with (- (rate * (IZR (Z.abs z) / IZR k + 1) + - (rate / IZR k) * INR n)) in L by (field; lra). lra.
  - apply (ex_series_scal (K := R_AbsRing) (V := R_NormedModule)). now apply ex_series_geom.
Qed.

Theorem clamped : forall x x' z, (Z.abs (x - x') <= m * k)%Z -> beyond (z - x) <= exp eps * beyond (z - x').
Proof.
  intros x x' z Hd. unfold beyond. rewrite <- Series_scal_l. apply Series_le.
  - intro n. split; [left; apply exp_pos|].
    replace (z - x + Z.of_nat n)%Z with (z + Z.of_nat n - x)%Z by ring.
    replace (z - x' + Z.of_nat n)%Z with (z + Z.of_nat n - x')%Z by ring. now apply lattice.
  - apply (ex_series_scal (K := R_AbsRing) (V := R_NormedModule)), summable.
Qed.

(** The same for the lower end, since the noise is symmetric: outcomes up to z are those from - z on, mirrored. *)
Corollary clamped_below : forall x x' z, (Z.abs (x - x') <= m * k)%Z -> beyond (x - z) <= exp eps * beyond (x' - z).
Proof.
  intros x x' z Hd. replace (x - z)%Z with (- z - - x)%Z by ring. replace (x' - z)%Z with (- z - - x')%Z by ring.
  apply clamped. lia.
Qed.
End Theorem_.

(** True answers that are no whole numbers go to the nearest point of a lattice of step h that is counted from [origin];
    where two are as near, to the upper one. *)
Definition nearest (origin h x : R) (i : Z) : Prop := IZR i - / 2 <= (x - origin) / h < IZR i + / 2.

Theorem rounded_answers : forall origin h s k x x' i j, 0 < h -> s <= IZR k * h -> Rabs (x - x') <= s ->
  nearest origin h x i -> nearest origin h x' j -> (Z.abs (i - j) <= k)%Z.
Proof.
  assert (One : forall origin h s k x x' i j, 0 < h -> s <= IZR k * h -> x - x' <= s ->
    nearest origin h x i -> nearest origin h x' j -> (i - j <= k)%Z).
  { intros origin h s k x x' i j Hh Hs Hd [A _] [_ B]. assert (C : (x - origin) / h - (x' - origin) / h <= IZR k).
    { replace ((x - origin) / h - (x' - origin) / h) with ((x - x') / h) by (field; lra).
      apply Rmult_le_reg_r with h; [assumption|]. replace ((x - x') / h * h) with (x - x') by (field; lra). lra. }
    apply Zlt_succ_le. unfold Z.succ. apply lt_IZR. rewrite minus_IZR, plus_IZR. lra. }
  intros origin h s k x x' i j Hh Hs Hd A B. assert (D := Rle_abs (x - x')). assert (E := Rle_abs (x' - x)); rewrite Rabs_minus_sym in E.
  assert (P := One origin h s k x x' i j Hh Hs ltac:(lra) A B). assert (Q := One origin h s k x' x j i Hh Hs ltac:(lra) B A). lia.
Qed.

Ltac rounding H Hi Hj := rewrite Z.mul_1_l; refine (rounded_answers _ _ _ _ _ _ _ _ _ _ H Hi Hj); lra.

(** With a smaller epsilon, two answers m k steps apart are refuted by the outcome at one of them. *)
Theorem refuted : forall rate eps k r m, (0 < k)%Z -> (1 <= r <= k)%Z -> (0 < m)%Z -> eps < rate * IZR m ->
  exp eps * weight rate k r (0 - m * k) < weight rate k r (0 - 0).
Proof.
  intros rate eps k r m Hk Hr Hm H. unfold weight. rewrite <- exp_plus. apply exp_increasing.
  assert (E : level k r (0 - m * k) = (m + level k r (0 - 0))%Z).
  { unfold level. replace (Z.abs (0 - m * k)) with (m * k)%Z by nia. replace (Z.abs (0 - 0)) with 0%Z by reflexivity.
    replace (m * k + k - r)%Z with (0 + k - r + m * k)%Z by ring. rewrite Z.div_add by lia. ring. }
  rewrite E, plus_IZR. lra.
Qed.
