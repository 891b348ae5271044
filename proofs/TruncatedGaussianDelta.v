(** Gaussian noise truncated to an interval, at a delta: what any threshold finds, between places and at them. *)
From Coq Require Import Reals ZArith QArith List Lra Psatz Lia.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy HockeyStick Bell Bounds UnboundedGaussian TruncatedGaussian.
Import ListNotations.
Open Scope R_scope.

(** A function whose second derivative is at least - C is at most so far above its chord. *)
Lemma chord : forall (f f1 f2 : R -> R) C a w t, 0 <= w -> 0 <= t <= 1 ->
  (forall x, a <= x <= a + w -> is_derive f x (f1 x)) -> (forall x, a <= x <= a + w -> is_derive f1 x (f2 x)) ->
  (forall x, a <= x <= a + w -> - C <= f2 x) ->
  f (a + t * w) <= (1 - t) * f a + t * f (a + w) + C * w ^ 2 / 2 * (t * (1 - t)).
Proof.
  intros f f1 f2 C a w t Hw Ht D1 D2 H. set (x := a + t * w). assert (Hx : a <= x <= a + w) by (unfold x; nra).
  set (h := fun y => f y + C / 2 * (y - a) ^ 2). set (h1 := fun y => f1 y + C * (y - a)).
  assert (E1 : forall y, a <= y <= a + w -> is_derive h y (h1 y)).
  { intros y Hy. apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule)); [now apply D1|].
    evar_last; [auto_derive; [trivial | reflexivity] | simpl; field]. }
  assert (E2 : forall y, a <= y <= a + w -> is_derive h1 y (f2 y + C)).
  { intros y Hy. apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule)); [now apply D2|].
    evar_last; [auto_derive; [trivial | reflexivity] | simpl; field]. }
  assert (M : forall y z, a <= y <= z -> z <= a + w -> exists c, y <= c <= z /\ h z - h y = h1 c * (z - y)).
  { intros y z Hy Hz. destruct (MVT_gen h y z h1) as [c [Hc Ec]].
    - intros v Hv. rewrite Rmin_left, Rmax_right in Hv by lra. apply E1. lra.
    - intros v Hv. rewrite Rmin_left, Rmax_right in Hv by lra. apply derivable_continuous_pt. exists (h1 v).
      apply is_derive_Reals, E1. lra.
    - rewrite Rmin_left, Rmax_right in Hc by lra. now exists c. }
  assert (M1 : forall y z, a <= y <= z -> z <= a + w -> h1 y <= h1 z).
  { intros y z Hy Hz. destruct (MVT_gen h1 y z (fun v => f2 v + C)) as [c [Hc Ec]].
    - intros v Hv. rewrite Rmin_left, Rmax_right in Hv by lra. apply E2. lra.
    - intros v Hv. rewrite Rmin_left, Rmax_right in Hv by lra. apply derivable_continuous_pt. exists (f2 v + C).
      apply is_derive_Reals, E2. lra.
    - rewrite Rmin_left, Rmax_right in Hc by lra. assert (Q := H c ltac:(lra)). nra. }
  destruct (M a x ltac:(lra) ltac:(lra)) as [c [Hc Ec]]. destruct (M x (a + w) ltac:(lra) ltac:(lra)) as [d [Hd Ed]].
  assert (K := M1 c d ltac:(lra) ltac:(lra)). unfold h in Ec, Ed.
  replace (x - a) with (t * w) in * by (unfold x; ring). replace (a + w - x) with ((1 - t) * w) in * by (unfold x; ring).
  replace (a + w - a) with w in * by ring. replace (a - a) with 0 in * by ring.
  assert (P : 0 <= t * (1 - t) * w) by (repeat apply Rmult_le_pos; lra).
  assert (Q : h1 c * (t * w) * (1 - t) <= h1 d * ((1 - t) * w) * t) by nra.
  nra.
Qed.

(** In units of the scale. *)
Section Unit.
Variables l u : R.
Hypothesis Hlu : l < u.
Definition beneath (z a : R) : R := RInt bell 0 (z - a) - RInt bell 0 (l - a).
Definition whole (a : R) : R := RInt bell 0 (u - a) - RInt bell 0 (l - a).
Definition cdf (z a : R) : R := beneath z a / whole a.
Let N1 (z a : R) : R := bell (l - a) - bell (z - a).
Let N2 (z a : R) : R := (l - a) * bell (l - a) - (z - a) * bell (z - a).
Definition mean (a : R) : R := N1 u a / whole a.

Lemma area_between : forall y z, RInt bell 0 z - RInt bell 0 y = RInt bell y z.
Proof. intros. rewrite <- (chasles 0 y z). ring. Qed.

Lemma beneath_pos : forall z a, l <= z -> 0 <= beneath z a.
Proof. intros. unfold beneath. rewrite area_between. apply integral_pos. lra. Qed.

Lemma beneath_rises : forall y z a, y <= z -> beneath y a <= beneath z a.
Proof. intros. unfold beneath. assert (A := area_rises (y - a) (z - a) ltac:(lra)). lra. Qed.

Lemma whole_pos : forall a, 0 < whole a.
Proof.
  intro. unfold whole. rewrite area_between. apply RInt_gt_0; [lra | intros; apply exp_pos | intros; apply continuous_bell].
Qed.

Lemma cdf_pos : forall z a, l <= z -> 0 <= cdf z a.
Proof. intros. apply Rdiv_le_0_compat; [now apply beneath_pos | apply whole_pos]. Qed.

Lemma cdf_rises : forall y z a, y <= z -> cdf y a <= cdf z a.
Proof. intros. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, whole_pos | now apply beneath_rises]. Qed.

(** What a polynomial of degree two weighs, around any number m. *)
Lemma bell_derive : forall x, is_derive bell x (- x * bell x).
Proof. intro. unfold bell. auto_derive; [trivial | unfold Rdiv; simpl; field]. Qed.

Lemma weighs : forall c m x, is_derive (fun x => c * RInt bell 0 x + (m - x) * bell x) x ((c - 1 + x ^ 2 - m * x) * bell x)
  /\ is_derive (fun x => - m * RInt bell 0 x - bell x) x ((x - m) * bell x).
Proof.
  intros c m x. assert (A := area_derive x). assert (D := bell_derive x). split.
  - replace ((c - 1 + x ^ 2 - m * x) * bell x) with (c * bell x + (-1 * bell x + (m - x) * (- x * bell x))) by ring.
    apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule) (fun x => c * RInt bell 0 x) (fun x => (m - x) * bell x)).
    + apply is_derive_scal. exact A.
    + assert (E : is_derive (fun x => m - x) x (-1)) by (auto_derive; [trivial | ring]).
      exact (is_derive_mult (fun x => m - x) bell x _ _ E D Rmult_comm).
  - replace ((x - m) * bell x) with (- m * bell x - - x * bell x) by ring.
    apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun x => - m * RInt bell 0 x) bell); [|exact D].
    apply is_derive_scal. exact A.
Qed.

Lemma second : forall m y z, is_RInt (fun v => (v - m) ^ 2 * bell v) y z
  ((1 + m ^ 2) * (RInt bell 0 z - RInt bell 0 y) + (2 * m - z) * bell z - (2 * m - y) * bell y).
Proof.
  intros m y z. evar_last.
  - apply (is_RInt_derive (V := R_CompleteNormedModule) (fun x => (1 + m ^ 2) * RInt bell 0 x + (2 * m - x) * bell x)).
    + intros x _. replace ((x - m) ^ 2 * bell x) with ((1 + m ^ 2 - 1 + x ^ 2 - 2 * m * x) * bell x) by ring. apply weighs.
    + intros x _. apply continuity_pt_filterlim, derivable_continuous_pt. unfold bell, Rdiv. reg.
  - unfold minus, plus, opp; simpl. ring.
Qed.

Lemma moment1 : forall m y z, is_RInt (fun v => (v - m) * bell v) y z (bell y - bell z - m * (RInt bell 0 z - RInt bell 0 y)).
Proof.
  intros m y z. evar_last.
  - apply (is_RInt_derive (V := R_CompleteNormedModule) (fun x => - m * RInt bell 0 x - bell x)).
    + intros x _. apply (weighs 0 m x).
    + intros x _. apply continuity_pt_filterlim, derivable_continuous_pt. unfold bell, Rdiv. reg.
  - unfold minus, plus, opp; simpl. ring.
Qed.

Lemma mean_inside : forall a, l - a <= mean a <= u - a.
Proof.
  intro a. assert (W := whole_pos a). assert (I := moment1 (l - a) (l - a) (u - a)). assert (J := moment1 (u - a) (l - a) (u - a)).
  assert (P : 0 <= bell (l - a) - bell (u - a) - (l - a) * whole a).
  { apply (is_RInt_le (fun _ => 0) (fun v => (v - (l - a)) * bell v) (l - a) (u - a)); [lra | | exact I |].
    - evar_last; [apply (is_RInt_const (V := R_NormedModule)) | unfold scal; simpl; unfold mult; simpl; ring].
    - intros v Hv. assert (0 < bell v) by apply exp_pos. nra. }
  assert (Q : bell (l - a) - bell (u - a) - (u - a) * whole a <= 0).
  { apply (is_RInt_le (fun v => (v - (u - a)) * bell v) (fun _ => 0) (l - a) (u - a)); [lra | exact J | |].
    - evar_last; [apply (is_RInt_const (V := R_NormedModule)) | unfold scal; simpl; unfold mult; simpl; ring].
    - intros v Hv. assert (0 < bell v) by apply exp_pos. nra. }
  unfold mean, N1. split; apply Rmult_le_reg_r with (whole a); try assumption; unfold Rdiv; rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(** Derivatives in the place. *)
Lemma beneath_derive : forall z a, is_derive (beneath z) a (N1 z a).
Proof.
  intros z a. assert (E : forall y, is_derive (fun a => RInt bell 0 (y - a)) a (- bell (y - a))).
  { intro y. assert (G : is_derive (fun a => y - a) a (-1)) by (auto_derive; [trivial | ring]).
    assert (K := is_derive_comp (fun x => RInt bell 0 x) (fun a => y - a) a _ _ (area_derive (y - a)) G).
    unfold scal in K; simpl in K; unfold mult in K; simpl in K. replace (- bell (y - a)) with (-1 * bell (y - a)) by ring. exact K. }
  unfold beneath, N1. replace (bell (l - a) - bell (z - a)) with (- bell (z - a) - - bell (l - a)) by ring.
  apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun a => RInt bell 0 (z - a)) (fun a => RInt bell 0 (l - a))); apply E.
Qed.

Lemma beneath_derive2 : forall z a, is_derive (N1 z) a (N2 z a).
Proof.
  intros z a. assert (E : forall y, is_derive (fun a => bell (y - a)) a ((y - a) * bell (y - a))).
  { intro y. assert (G : is_derive (fun a => y - a) a (-1)) by (auto_derive; [trivial | ring]).
    assert (K := is_derive_comp bell (fun a => y - a) a _ _ (bell_derive (y - a)) G).
    unfold scal in K; simpl in K; unfold mult in K; simpl in K.
    replace ((y - a) * bell (y - a)) with (-1 * (- (y - a) * bell (y - a))) by ring. exact K. }
  apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun a => bell (l - a)) (fun a => bell (z - a))); apply E.
Qed.

Definition cdf1 (z a : R) : R := (N1 z a - mean a * beneath z a) / whole a.
Definition cdf2 (z a : R) : R := (N2 z a - 2 * mean a * N1 z a + 2 * mean a ^ 2 * beneath z a) / whole a - beneath z a * N2 u a / whole a ^ 2.

Lemma whole_is : forall a, beneath u a = whole a.
Proof. reflexivity. Qed.

Lemma cdf_derive : forall z a, is_derive (cdf z) a (cdf1 z a).
Proof.
  intros z a. assert (W := whole_pos a). unfold cdf.
  replace (cdf1 z a) with ((N1 z a * whole a - beneath z a * N1 u a) / whole a ^ 2) by (unfold cdf1, mean; field; lra).
  apply (is_derive_div (beneath z) (beneath u) a); [apply beneath_derive | apply beneath_derive | rewrite whole_is; lra].
Qed.

Lemma cdf_derive2 : forall z a, is_derive (cdf1 z) a (cdf2 z a).
Proof.
  intros z a. assert (W := whole_pos a).
  apply (is_derive_ext (fun a => (N1 z a * beneath u a - N1 u a * beneath z a) / beneath u a ^ 2)).
  { intro t. assert (Wt := whole_pos t). unfold cdf1, mean. rewrite whole_is. simpl. field. lra. }
  assert (Z := beneath_derive z a). assert (U := beneath_derive u a). assert (Z2 := beneath_derive2 z a). assert (U2 := beneath_derive2 u a).
  evar_last.
  - apply (is_derive_div (fun a => N1 z a * beneath u a - N1 u a * beneath z a) (fun a => beneath u a ^ 2) a).
    + apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun a => N1 z a * beneath u a) (fun a => N1 u a * beneath z a)).
      * exact (is_derive_mult _ _ a _ _ Z2 U Rmult_comm).
      * exact (is_derive_mult _ _ a _ _ U2 Z Rmult_comm).
    + apply (is_derive_pow (beneath u) 2 a _ U).
    + rewrite whole_is. apply pow_nonzero. lra.
  - unfold minus, plus, opp, mult; simpl. rewrite whole_is. unfold cdf2, mean. simpl. field. lra.
Qed.

(** The second derivative is between minus the probability and its multiple by the squared width. *)
Lemma spread : forall z a, l <= z <= u ->
  let S := N2 z a + beneath z a - 2 * mean a * N1 z a + mean a ^ 2 * beneath z a in 0 <= S <= (u - l) ^ 2 * beneath z a.
Proof.
  intros z a Hz S. assert (M := mean_inside a). assert (I := second (mean a) (l - a) (z - a)).
  replace ((1 + mean a ^ 2) * (RInt bell 0 (z - a) - RInt bell 0 (l - a)) + (2 * mean a - (z - a)) * bell (z - a) - (2 * mean a - (l - a)) * bell (l - a))
    with S in I by (unfold S, N2, N1, beneath; ring).
  split.
  - apply (is_RInt_le (fun _ => 0) (fun v => (v - mean a) ^ 2 * bell v) (l - a) (z - a)); [lra | | exact I |].
    + evar_last; [apply (is_RInt_const (V := R_NormedModule)) | unfold scal; simpl; unfold mult; simpl; ring].
    + intros v _. apply Rmult_le_pos; [apply pow2_ge_0 | left; apply exp_pos].
  - apply (is_RInt_le (fun v => (v - mean a) ^ 2 * bell v) (fun v => (u - l) ^ 2 * bell v) (l - a) (z - a)); [lra | exact I | |].
    + unfold beneath. rewrite area_between. apply (is_RInt_scal (V := R_NormedModule)).
      apply (RInt_correct (V := R_CompleteNormedModule)), Bell.integrable.
    + intros v Hv. apply Rmult_le_compat_r; [left; apply exp_pos|]. apply pow_maj_Rabs, Rabs_le. lra.
Qed.

Lemma cdf2_bounds : forall z a, l <= z <= u -> - cdf z a <= cdf2 z a <= (u - l) ^ 2 * cdf z a.
Proof.
  intros z a Hz. assert (W := whole_pos a). assert (M := mean_inside a). destruct (spread z a Hz) as [S0 S1].
  destruct (spread u a ltac:(lra)) as [V0 _]. rewrite whole_is in V0. assert (B := beneath_pos z a ltac:(lra)).
  assert (EM : N1 u a = mean a * whole a) by (unfold mean; field; lra).
  set (S := N2 z a + beneath z a - 2 * mean a * N1 z a + mean a ^ 2 * beneath z a) in *.
  assert (V1 : N2 u a <= mean a ^ 2 * whole a).
  { replace (mean a ^ 2 * whole a) with (mean a * N1 u a) by (rewrite EM; ring). unfold N1, N2.
    assert (0 < bell (l - a)) by apply exp_pos. assert (0 < bell (u - a)) by apply exp_pos. nra. }
  set (V := N2 u a + whole a - mean a ^ 2 * whole a).
  assert (V0' : 0 <= V) by (unfold V; rewrite EM in V0; lra). assert (V1' : V <= whole a) by (unfold V; lra).
  assert (E : cdf2 z a = S / whole a - beneath z a * V / whole a ^ 2) by (unfold cdf2, S, V; field; lra).
  rewrite E. unfold cdf. assert (IW := Rinv_0_lt_compat _ W).
  assert (X : 0 <= beneath z a * V / whole a ^ 2 <= beneath z a / whole a).
  { replace (beneath z a * V / whole a ^ 2) with (beneath z a * (V * / whole a) * / whole a) by (field; lra).
    assert (0 <= V * / whole a <= 1).
    { split; [apply Rmult_le_pos; lra|]. apply Rmult_le_reg_r with (whole a); [assumption|]. rewrite Rmult_assoc, Rinv_l; lra. }
    unfold Rdiv. split; [repeat apply Rmult_le_pos; lra|]. apply Rmult_le_compat_r; [lra|]. nra. }
  assert (Y : 0 <= S / whole a <= (u - l) ^ 2 * (beneath z a / whole a)).
  { split; [apply Rdiv_le_0_compat; lra|]. unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; lra. }
  lra.
Qed.

(** A later place has a later output. *)
Lemma cdf_falls : forall z a b, l <= z <= u -> a <= b -> cdf z b <= cdf z a.
Proof.
  intros z a b Hz Hab. destruct (MVT_gen (cdf z) a b (cdf1 z)) as [c [_ E]].
  - intros x _. apply cdf_derive.
  - intros x _. apply derivable_continuous_pt. exists (cdf1 z x). apply is_derive_Reals, cdf_derive.
  - enough (cdf1 z c <= 0) by nra. assert (W := whole_pos c). assert (M := mean_inside c).
    enough (N1 z c - mean c * beneath z c <= 0) by (unfold cdf1, Rdiv; assert (I := Rinv_0_lt_compat _ W); nra).
    destruct (Rle_dec (z - c) (mean c)) as [L|L].
    + assert (I := moment1 (mean c) (l - c) (z - c)).
      apply (is_RInt_le (fun v => (v - mean c) * bell v) (fun _ => 0) (l - c) (z - c)); [lra | exact I | |].
      * evar_last; [apply (is_RInt_const (V := R_NormedModule)) | unfold scal; simpl; unfold mult; simpl; ring].
      * intros v Hv. assert (0 < bell v) by apply exp_pos. nra.
    + assert (I := moment1 (mean c) (z - c) (u - c)).
      assert (EM : N1 u c = mean c * whole c) by (unfold mean; field; lra). unfold N1, whole, beneath in *.
      enough (0 <= bell (z - c) - bell (u - c) - mean c * (RInt bell 0 (u - c) - RInt bell 0 (z - c))) by lra.
      apply (is_RInt_le (fun _ => 0) (fun v => (v - mean c) * bell v) (z - c) (u - c)); [lra | | exact I |].
      * evar_last; [apply (is_RInt_const (V := R_NormedModule)) | unfold scal; simpl; unfold mult; simpl; ring].
      * intros v Hv. assert (0 < bell v) by apply exp_pos. nra.
Qed.
(** Pairs a distance s apart, and a threshold at z. *)
Variables s k : R.
Hypothesis Hs : 0 < s.
Hypothesis Hk : 0 < k.
Definition stick (z a : R) : R := cdf z a - k * cdf z (a + s).
Definition tilt (z a : R) : R := exp (s ^ 2 / 2 - s * (z - a)).

Lemma best : forall y z a, beneath y a - tilt z a * beneath y (a + s) <= beneath z a - tilt z a * beneath z (a + s).
Proof.
  intros y z a. assert (F := found_most (s ^ 2 / 2 - s * (z - a)) s (y - a) Hs). fold (tilt z a) in F.
  replace (s / 2 - (s ^ 2 / 2 - s * (z - a)) / s) with (z - a) in F by (field; lra). unfold found, below in F. fold (tilt z a) in F.
  unfold beneath. replace (y - (a + s)) with (y - a - s) by ring. replace (z - (a + s)) with (z - a - s) by ring. lra.
Qed.

(** Where the densities have a ratio of at most k at z, no threshold finds more than z does by that ratio. *)
Lemma node : forall z a y, l <= y -> tilt z a * whole (a + s) <= k * whole a ->
  stick y a <= (beneath z a - tilt z a * beneath z (a + s)) / whole a.
Proof.
  intros z a y Hy H. assert (W := whole_pos a). assert (W' := whole_pos (a + s)). assert (B := best y z a).
  assert (P := beneath_pos y (a + s) Hy). unfold stick, cdf. apply Rmult_le_reg_r with (whole a); [assumption|].
  replace ((beneath z a - tilt z a * beneath z (a + s)) / whole a * whole a) with (beneath z a - tilt z a * beneath z (a + s)) by (field; lra).
  apply Rle_trans with (2 := B).
  replace ((beneath y a / whole a - k * (beneath y (a + s) / whole (a + s))) * whole a)
    with (beneath y a - (k * whole a / whole (a + s)) * beneath y (a + s)) by (field; lra).
  enough (tilt z a <= k * whole a / whole (a + s)) by nra.
  apply Rmult_le_reg_r with (whole (a + s)); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

Lemma whole_is_mass : forall a, mass 1 l u a = whole a.
Proof.
  intro. rewrite mass_is_part by lra. unfold part, whole. replace ((u - a) / 1) with (u - a) by field.
  replace ((l - a) / 1) with (l - a) by field. ring.
Qed.

(** The ratio of the densities at z is larger at a later place. *)
Lemma ratio_rises : forall z a b, a <= b -> tilt z a * whole (a + s) * whole b <= tilt z b * whole (b + s) * whole a.
Proof.
  intros z a b H. assert (C := log_convex 1 l u a b s ltac:(lra) Hlu H ltac:(lra)). unfold moment in C. rewrite !whole_is_mass in C.
  set (q := exp (- ((a - l) ^ 2 / (2 * 1 ^ 2) + (b - l) ^ 2 / (2 * 1 ^ 2) + s * (z - l)))). assert (Q : 0 <= q) by (left; apply exp_pos).
  apply (Rmult_le_compat_l _ _ _ Q) in C.
  replace (q * (exp ((a + s - l) ^ 2 / (2 * 1 ^ 2)) * whole (a + s) * (exp ((b - l) ^ 2 / (2 * 1 ^ 2)) * whole b)))
    with ((q * exp ((a + s - l) ^ 2 / (2 * 1 ^ 2)) * exp ((b - l) ^ 2 / (2 * 1 ^ 2))) * whole (a + s) * whole b) in C by ring.
  replace (q * (exp ((b + s - l) ^ 2 / (2 * 1 ^ 2)) * whole (b + s) * (exp ((a - l) ^ 2 / (2 * 1 ^ 2)) * whole a)))
    with ((q * exp ((b + s - l) ^ 2 / (2 * 1 ^ 2)) * exp ((a - l) ^ 2 / (2 * 1 ^ 2))) * whole (b + s) * whole a) in C by ring.
  replace (tilt z a) with (q * exp ((a + s - l) ^ 2 / (2 * 1 ^ 2)) * exp ((b - l) ^ 2 / (2 * 1 ^ 2)))
    by (unfold q, tilt; rewrite <- !exp_plus; f_equal; field).
  replace (tilt z b) with (q * exp ((b + s - l) ^ 2 / (2 * 1 ^ 2)) * exp ((a - l) ^ 2 / (2 * 1 ^ 2)))
    by (unfold q, tilt; rewrite <- !exp_plus; f_equal; field). exact C.
Qed.

(** So, where it is at most k at z and b, thresholds beyond z find less at every place before b. *)
Lemma beyond : forall y z a b, a <= b -> z <= y -> tilt z b * whole (b + s) <= k * whole b -> stick y a <= stick z a.
Proof.
  intros y z a b Hab Hy H. assert (W := whole_pos a). assert (W' := whole_pos (a + s)). assert (Wb := whole_pos b).
  assert (R := ratio_rises z a b Hab). assert (B := best y z a). assert (P := beneath_rises z y (a + s) Hy).
  assert (K : tilt z a * whole (a + s) <= k * whole a) by (apply Rmult_le_reg_r with (whole b); nra).
  unfold stick, cdf. apply Rmult_le_reg_r with (whole a * whole (a + s)); [nra|].
  replace ((beneath y a / whole a - k * (beneath y (a + s) / whole (a + s))) * (whole a * whole (a + s)))
    with (beneath y a * whole (a + s) - k * whole a * beneath y (a + s)) by (field; lra).
  replace ((beneath z a / whole a - k * (beneath z (a + s) / whole (a + s))) * (whole a * whole (a + s)))
    with (beneath z a * whole (a + s) - k * whole a * beneath z (a + s)) by (field; lra).
  nra.
Qed.

Lemma chord_below : forall e0 e1 c t, 0 <= e0 -> 0 <= e1 -> 0 <= t <= 1 ->
  (c <= e0 + e1 \/ (c - e0 - e1) ^ 2 <= 4 * (e0 * e1)) -> c * (t * (1 - t)) <= (1 - t) * e0 + t * e1.
Proof.
  intros e0 e1 c t H0 H1 Ht [H|H].
  - assert (0 <= t * (1 - t)) by (apply Rmult_le_pos; lra). assert (0 <= (1 - t) ^ 2 * e0) by (apply Rmult_le_pos; [apply pow2_ge_0 | assumption]).
    assert (0 <= t ^ 2 * e1) by (apply Rmult_le_pos; [apply pow2_ge_0 | assumption]).
    apply Rle_trans with ((e0 + e1) * (t * (1 - t))); [now apply Rmult_le_compat_r | lra].
  - set (p := sqrt e0). set (q := sqrt e1). assert (P := sqrt_sqrt e0 H0). assert (Q := sqrt_sqrt e1 H1). fold p in P. fold q in Q.
    assert (P0 : 0 <= p) by apply sqrt_pos. assert (Q0 : 0 <= q) by apply sqrt_pos. assert (PQ : 0 <= p * q) by now apply Rmult_le_pos.
    assert (K : c - e0 - e1 <= 2 * (p * q)).
    { destruct (Rle_dec (c - e0 - e1) (2 * (p * q))) as [L|L]; [exact L|]. apply Rnot_le_lt in L.
      replace (e0 * e1) with ((p * q) * (p * q)) in H by (rewrite <- P, <- Q; ring). nra. }
    assert (T : 0 <= t * (1 - t)) by (apply Rmult_le_pos; lra). rewrite <- P, <- Q in *.
    assert (S := Rle_0_sqr ((1 - t) * p - t * q)). unfold Rsqr in S. nra.
Qed.

(** Between two places. *)
Lemma cell : forall a w z e0 e1 delta c, 0 < w -> l <= z <= u -> tilt z (a + w) * whole (a + w + s) <= k * whole (a + w) ->
  0 <= e0 -> 0 <= e1 -> (forall y, l <= y <= u -> stick y a <= delta - e0) -> (forall y, l <= y <= u -> stick y (a + w) <= delta - e1) ->
  (cdf z a + k * (u - l) ^ 2 * cdf z (a + s)) * w ^ 2 / 2 <= c -> (c <= e0 + e1 \/ (c - e0 - e1) ^ 2 <= 4 * (e0 * e1)) ->
  forall x y, a <= x <= a + w -> l <= y <= u -> stick y x <= delta.
Proof.
  intros a w z e0 e1 delta c Hw Hz Hr H0 H1 Ha Hb Hc Hce x y Hx Hy.
  assert (Main : forall y, l <= y <= z -> stick y x <= delta).
  { clear y Hy. intros y Hy. set (t := (x - a) / w). assert (Ht : 0 <= t <= 1).
    { unfold t. split; [apply Rdiv_le_0_compat; lra|]. apply Rmult_le_reg_r with w; [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
    replace x with (a + t * w) by (unfold t; field; lra).
    set (C := cdf z a + k * (u - l) ^ 2 * cdf z (a + s)) in *.
    assert (K := chord (stick y) (fun x => cdf1 y x - k * cdf1 y (x + s)) (fun x => cdf2 y x - k * cdf2 y (x + s)) C a w t
      ltac:(lra) Ht).
    assert (Shift : forall (f : R -> R) g x, is_derive f (x + s) g -> is_derive (fun x => f (x + s)) x g).
    { intros f g v D. assert (G : is_derive (fun x => x + s) v 1) by (auto_derive; [trivial | ring]).
      assert (Q := is_derive_comp f (fun x => x + s) v _ _ D G). unfold scal in Q; simpl in Q; unfold mult in Q; simpl in Q.
      rewrite Rmult_1_l in Q. exact Q. }
    assert (K' := K ltac:(intros; apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (cdf y) (fun x => k * cdf y (x + s)));
        [apply cdf_derive | apply is_derive_scal; apply (Shift (cdf y)); apply cdf_derive])
      ltac:(intros; apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (cdf1 y) (fun x => k * cdf1 y (x + s)));
        [apply cdf_derive2 | apply is_derive_scal; apply (Shift (cdf1 y)); apply cdf_derive2])).
    assert (J : forall v, a <= v <= a + w -> - C <= cdf2 y v - k * cdf2 y (v + s)).
    { intros v Hv. assert (B1 := cdf2_bounds y v ltac:(lra)). assert (B2 := cdf2_bounds y (v + s) ltac:(lra)).
      assert (T1 := cdf_falls z a v ltac:(lra) ltac:(lra)). assert (T2 := cdf_falls z (a + s) (v + s) ltac:(lra) ltac:(lra)).
      assert (R1 := cdf_rises y z v ltac:(lra)). assert (R2 := cdf_rises y z (v + s) ltac:(lra)).
      assert (0 <= (u - l) ^ 2) by apply pow2_ge_0. unfold C.
      assert (k * cdf2 y (v + s) <= k * ((u - l) ^ 2 * cdf z (a + s))).
      { apply Rmult_le_compat_l; [lra|]. apply Rle_trans with ((u - l) ^ 2 * cdf y (v + s)); [lra|]. apply Rmult_le_compat_l; lra. } lra. }
    specialize (K' J). assert (Ey := Ha y ltac:(lra)). assert (Ew := Hb y ltac:(lra)).
    assert (G := chord_below e0 e1 c t H0 H1 Ht Hce). assert (T : 0 <= t * (1 - t)) by (apply Rmult_le_pos; lra).
    assert (C * w ^ 2 / 2 * (t * (1 - t)) <= c * (t * (1 - t))) by (apply Rmult_le_compat_r; assumption). nra. }
  destruct (Rle_dec y z) as [L|L]; [apply Main; lra|]. apply Rle_trans with (stick z x); [|apply Main; lra].
  apply beyond with (b := a + w); lra.
Qed.

(** All pairs of a range, of which the widest are enough. *)
Lemma thresholds : forall first last delta, s <= last - first -> (forall a z, first <= a <= last - s -> l <= z <= u -> stick z a <= delta) ->
  forall x x' z, first <= x <= x' -> x' <= last -> x' - x <= s -> l <= z <= u -> cdf z x - k * cdf z x' <= delta.
Proof.
  intros first last delta Hl H x x' z Hx Hx' Hd Hz. destruct (Rle_dec x (last - s)) as [C|C].
  - assert (S := H x z ltac:(lra) Hz). assert (F := cdf_falls z x' (x + s) Hz ltac:(lra)). unfold stick in S. nra.
  - assert (S := H (last - s) z ltac:(lra) Hz). unfold stick in S. replace (last - s + s) with last in S by ring.
    assert (F := cdf_falls z x' last Hz ltac:(lra)). assert (G := cdf_falls z (last - s) x Hz ltac:(lra)). nra.
Qed.
End Unit.

(** The noise of scale sigma. *)
Lemma density_integral : forall sigma l u x c e, 0 < sigma -> l < u ->
  is_RInt (density sigma l u x) c e (cdf (l / sigma) (u / sigma) (e / sigma) (x / sigma) - cdf (l / sigma) (u / sigma) (c / sigma) (x / sigma)).
Proof.
  intros sigma l u x c e Hs Hlu. assert (N : sigma <> 0) by lra. assert (I := div_pos sigma Hs).
  assert (M := mass_pos sigma l u x N Hlu). assert (Up : l / sigma < u / sigma) by (apply Rmult_lt_compat_r; assumption).
  assert (W := whole_pos (l / sigma) (u / sigma) Up (x / sigma)).
  assert (P : forall c e, part sigma c e x = RInt bell 0 (e / sigma - x / sigma) - RInt bell 0 (c / sigma - x / sigma)).
  { intros c' e'. unfold part. replace ((e' - x) / sigma) with (e' / sigma - x / sigma) by (field; lra).
    replace ((c' - x) / sigma) with (c' / sigma - x / sigma) by (field; lra). reflexivity. }
  assert (J : is_RInt (weight sigma x) c e (sigma * part sigma c e x)).
  { rewrite <- mass_is_part by assumption. apply (RInt_correct (V := R_CompleteNormedModule)), TruncatedGaussian.integrable.
    intro. now apply continuous_weight. }
  apply (is_RInt_scal (V := R_NormedModule) _ _ _ (/ mass sigma l u x)) in J.
  replace (cdf (l / sigma) (u / sigma) (e / sigma) (x / sigma) - cdf (l / sigma) (u / sigma) (c / sigma) (x / sigma))
    with (scal (/ mass sigma l u x) (sigma * part sigma c e x) : R).
  - revert J. apply is_RInt_ext. intros y _. exact (Rmult_comm _ _).
  - rewrite mass_is_part, !P by assumption. unfold scal; simpl; unfold mult; simpl. unfold cdf, beneath.
    fold (whole (l / sigma) (u / sigma) (x / sigma)). field. lra.
Qed.

Lemma continuous_density : forall sigma l u x y, 0 < sigma -> l < u -> continuous (density sigma l u x) y.
Proof.
  intros sigma l u x y Hs Hlu. apply (continuous_ext (fun y => / mass sigma l u x * weight sigma x y)).
  - intro. exact (Rmult_comm _ _).
  - apply (continuous_mult (K := R_AbsRing) (fun _ => / mass sigma l u x)); [apply continuous_const|].
    apply continuous_weight. lra.
Qed.

Lemma one_way : forall sigma l u eps delta x x' c d f, 0 < sigma -> l <= c <= d -> d <= u -> l < u -> 0 <= eps -> 0 <= delta ->
  x <= x' -> test f ->
  (forall z, l <= z <= u -> cdf (l / sigma) (u / sigma) (z / sigma) (x / sigma) - exp eps * cdf (l / sigma) (u / sigma) (z / sigma) (x' / sigma) <= delta) ->
  ex_RInt (fun y => density sigma l u x y * f y) c d -> ex_RInt (fun y => density sigma l u x' y * f y) c d ->
  RInt (fun y => density sigma l u x y * f y) c d <= exp eps * RInt (fun y => density sigma l u x' y * f y) c d + delta.
Proof.
  intros sigma l u eps delta x x' c d f Hsigma Hc Hd Hlu Heps Hdelta Hx Hf H P Q. assert (I := div_pos sigma Hsigma).
  assert (Pos : forall x y, 0 < density sigma l u x y).
  { intros. unfold density. apply Rmult_lt_0_compat; [apply exp_pos | apply Rinv_0_lt_compat, mass_pos; lra]. }
  destruct (Req_dec x x') as [E|N].
  - subst x'. assert (0 <= RInt (fun y => density sigma l u x y * f y) c d).
    { apply RInt_ge_0; [lra | assumption |]. intros y _. apply Rmult_le_pos; [left; apply Pos | apply Hf]. }
    assert (1 <= exp eps) by now apply exp_ge_1. nra.
  - assert (M := mass_pos sigma l u x ltac:(lra) Hlu). assert (M' := mass_pos sigma l u x' ltac:(lra) Hlu).
    set (r := (x' - x) / sigma). assert (Hr : 0 < r) by (apply Rdiv_lt_0_compat; lra).
    set (e' := eps + ln (mass sigma l u x / mass sigma l u x')).
    assert (Ee : exp e' = exp eps * (mass sigma l u x / mass sigma l u x')).
    { unfold e'. rewrite exp_plus, exp_ln; [reflexivity | now apply Rdiv_lt_0_compat]. }
    set (m := x + sigma * (r / 2 - e' / r)).
    assert (B : forall x y, density sigma l u x y = bell ((y - x) / sigma) / mass sigma l u x).
    { intros. unfold density, weight, bell. f_equal. f_equal. field. lra. }
    assert (Place : forall y, (y - x') / sigma = (y - x) / sigma - r) by (intro; unfold r; field; lra).
    assert (At : forall y, (y - x) / sigma * sigma = y - x) by (intro; field; lra).
    assert (Sl : forall y, (y <= m -> exp eps * density sigma l u x' y <= density sigma l u x y) /\
      (m <= y -> density sigma l u x y <= exp eps * density sigma l u x' y)).
    { intro y. rewrite !B, Place. destruct (slope e' r ((y - x) / sigma) Hr) as [S1 S2]. rewrite Ee in S1, S2.
      set (b1 := bell ((y - x) / sigma)) in *. set (b2 := bell ((y - x) / sigma - r)) in *.
      assert (T : exp eps * (b2 / mass sigma l u x') * mass sigma l u x = exp eps * (mass sigma l u x / mass sigma l u x') * b2) by (field; lra).
      assert (T' : b1 / mass sigma l u x * mass sigma l u x = b1) by (field; lra).
      split; intro Hy; apply Rmult_le_reg_r with (mass sigma l u x); try assumption; rewrite T, T'; [apply S1 | apply S2];
        apply Rmult_le_reg_r with sigma; try assumption; rewrite At; unfold m in Hy; lra. }
    assert (J : forall c e, is_RInt (fun y => density sigma l u x y - exp eps * density sigma l u x' y) c e
      (cdf (l / sigma) (u / sigma) (e / sigma) (x / sigma) - cdf (l / sigma) (u / sigma) (c / sigma) (x / sigma)
        - exp eps * (cdf (l / sigma) (u / sigma) (e / sigma) (x' / sigma) - cdf (l / sigma) (u / sigma) (c / sigma) (x' / sigma)))).
    { intros. apply (is_RInt_minus (V := R_NormedModule)); [now apply density_integral|].
      apply (is_RInt_scal (V := R_NormedModule)). now apply density_integral. }
    apply one_crossing with (m := m); try assumption; try lra.
    + intro; now apply continuous_density.
    + intro; now apply continuous_density.
    + intro. apply Sl.
    + intro. apply Sl.
    + intros e He Hed. rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ (J c e)).
      assert (A := H e ltac:(lra)).
      assert (G : 0 <= RInt (fun y => density sigma l u x y - exp eps * density sigma l u x' y) l c).
      { apply RInt_ge_0; [lra | eexists; apply J |]. intros y Hy. assert (K := proj1 (Sl y) ltac:(lra)). lra. }
      rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ (J l c)) in G.
      assert (Zero : forall x, cdf (l / sigma) (u / sigma) (l / sigma) x = 0) by (intro; unfold cdf, beneath, Rdiv; ring).
      rewrite !Zero in G. lra.
Qed.

Section Theorem_.
Variables (sigma l u first last s eps delta : R).
Hypothesis Hsigma : 0 < sigma.
Hypothesis Hlu : l < u.
Hypothesis Hs : 0 < s <= last - first.
Hypothesis Heps : 0 <= eps.
Hypothesis Hdelta : 0 <= delta.

(** What thresholds find between two places a distance s apart is at most delta. *)
Definition all_thresholds (l u first last : R) : Prop := forall a z, first <= a <= last - s -> l <= z <= u ->
  stick (l / sigma) (u / sigma) (s / sigma) (exp eps) (z / sigma) (a / sigma) <= delta.
Hypothesis upward : all_thresholds l u first last.
Hypothesis downward : all_thresholds (- u) (- l) (- last) (- first).

Lemma all_pairs : forall l u first last x x' z, l < u -> s <= last - first -> all_thresholds l u first last ->
  first <= x <= x' -> x' <= last -> x' - x <= s -> l <= z <= u ->
  cdf (l / sigma) (u / sigma) (z / sigma) (x / sigma) - exp eps * cdf (l / sigma) (u / sigma) (z / sigma) (x' / sigma) <= delta.
Proof.
  intros l0 u0 f0 t0 x x' z Hl Hf H Hx Hx' Hd Hz. assert (I := div_pos sigma Hsigma). assert (E := exp_pos eps).
  assert (Le : forall p q, p <= q -> p / sigma <= q / sigma) by (intros; apply Rmult_le_compat_r; lra).
  assert (Back : forall p q, p <= q / sigma -> p * sigma <= q).
  { intros p q K. apply Rmult_le_reg_r with (/ sigma); [assumption|]. rewrite Rmult_assoc, Rinv_r; lra. }
  assert (Back' : forall p q, q / sigma <= p -> q <= p * sigma).
  { intros p q K. apply Rmult_le_reg_r with (/ sigma); [assumption|]. rewrite (Rmult_assoc p), Rinv_r; lra. }
  apply (thresholds (l0 / sigma) (u0 / sigma)) with (s := s / sigma) (first := f0 / sigma) (last := t0 / sigma); try lra.
  - apply Rmult_lt_compat_r; assumption.
  - replace (t0 / sigma - f0 / sigma) with ((t0 - f0) / sigma) by (field; lra). now apply Le.
  - intros a y Ha Hy. replace a with (a * sigma / sigma) by (field; lra). replace y with (y * sigma / sigma) by (field; lra). apply H.
    + split; [now apply Back' | apply Back]. replace ((t0 - s) / sigma) with (t0 / sigma - s / sigma) by (field; lra). lra.
    + split; [now apply Back' | now apply Back].
  - split; now apply Le.
  - now apply Le.
  - replace (x' / sigma - x / sigma) with ((x' - x) / sigma) by (field; lra). now apply Le.
  - split; now apply Le.
Qed.

(** Neighbouring answers are (eps, delta)-close under every test of outputs of the support. *)
Theorem truncated_gaussian_tests : forall x x' c d f, first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  l <= c <= d -> d <= u -> test f ->
  ex_RInt (fun y => density sigma l u x y * f y) c d -> ex_RInt (fun y => density sigma l u x' y * f y) c d ->
  RInt (fun y => density sigma l u x y * f y) c d <= exp eps * RInt (fun y => density sigma l u x' y * f y) c d + delta.
Proof.
  intros x x' c d f Hx Hx' Hd Hc Hdu Hf P Q. destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in Hd by lra. apply one_way; try assumption.
    intros z Hz. apply all_pairs with (first := first) (last := last); try assumption; lra.
  - apply Rnot_le_lt in L. rewrite Rabs_right in Hd by lra.
    assert (E : forall z y, density sigma (- u) (- l) (- z) y * f (- y) = (fun y => density sigma l u z y * f y) (- y)).
    { intros. cbv beta. f_equal. unfold density. rewrite mirrored by lra. f_equal. unfold weight. f_equal. f_equal. ring. }
    destruct (mirror _ _ c d (E x) P) as [P' EP]. destruct (mirror _ _ c d (E x') Q) as [Q' EQ].
    rewrite <- EP, <- EQ. apply one_way; try assumption; try lra.
    + intro. apply Hf.
    + intros z Hz. apply all_pairs with (first := - last) (last := - first); try assumption; lra.
Qed.
End Theorem_.

(** Where the range is in the middle of the support, one direction is the other. *)
Lemma in_the_middle : forall sigma s eps delta l u first last, 0 < sigma -> first - l = u - last ->
  all_thresholds sigma s eps delta l u first last -> all_thresholds sigma s eps delta (- u) (- l) (- last) (- first).
Proof.
  intros sigma s eps delta l u first last Hs E H a z Ha Hz. assert (K := H (a + (l + u)) (z + (l + u)) ltac:(lra) ltac:(lra)).
  unfold stick, cdf, beneath, whole in *.
  replace (z / sigma - a / sigma) with ((z + (l + u)) / sigma - (a + (l + u)) / sigma) by (field; lra).
  replace (- u / sigma - a / sigma) with (l / sigma - (a + (l + u)) / sigma) by (field; lra).
  replace (- l / sigma - a / sigma) with (u / sigma - (a + (l + u)) / sigma) by (field; lra).
  replace (z / sigma - (a / sigma + s / sigma)) with ((z + (l + u)) / sigma - ((a + (l + u)) / sigma + s / sigma)) by (field; lra).
  replace (- u / sigma - (a / sigma + s / sigma)) with (l / sigma - ((a + (l + u)) / sigma + s / sigma)) by (field; lra).
  replace (- l / sigma - (a / sigma + s / sigma)) with (u / sigma - ((a + (l + u)) / sigma + s / sigma)) by (field; lra).
  exact K.
Qed.

(** The event from c to d, between two answers. *)
Lemma refuted_event : forall sigma l u eps delta x x' c d, 0 < sigma -> l < u ->
  exp eps * (part sigma c d x' / part sigma l u x') + delta < part sigma c d x / part sigma l u x ->
  exp eps * RInt (density sigma l u x') c d + delta < RInt (density sigma l u x) c d.
Proof.
  intros sigma l u eps delta x x' c d Hs Hlu H.
  assert (E : forall x, RInt (density sigma l u x) c d = part sigma c d x / part sigma l u x :> R).
  { intro y. apply (is_RInt_unique (V := R_CompleteNormedModule)). assert (J := density_integral sigma l u y c d Hs Hlu).
    assert (M := mass_pos sigma l u y ltac:(lra) Hlu). rewrite mass_is_part in M by assumption.
    assert (P : forall c e, part sigma c e y = RInt bell 0 (e / sigma - y / sigma) - RInt bell 0 (c / sigma - y / sigma)).
    { intros c' e'. unfold part. replace ((e' - y) / sigma) with (e' / sigma - y / sigma) by (field; lra).
      replace ((c' - y) / sigma) with (c' / sigma - y / sigma) by (field; lra). reflexivity. }
    replace (part sigma c d y / part sigma l u y) with (cdf (l / sigma) (u / sigma) (d / sigma) (y / sigma) - cdf (l / sigma) (u / sigma) (c / sigma) (y / sigma)); [exact J|].
    rewrite !P in *. unfold cdf, beneath, whole. field. nra. }
  rewrite !E. exact H.
Qed.

(** What is computed, in whole numbers of a unit: places with a threshold each, and what lies between them. *)
Section Check.
Variables (p : positive) (L U S : Z) (G : positive) (k d : option (Z * Z)).
Local Notation "a +: b" := (sum_in a b) (at level 50, left associativity).
Local Notation "a -: b" := (sum_in a (opposite_in b)) (at level 50, left associativity).
Local Notation "a *: b" := (product_in p a b) (at level 40, left associativity).
Definition ratio (n : Z) (m : positive) : option (Z * Z) := Some (of_fraction p (Qmake n m)).
Definition area_to (n : Z) : option (Z * Z) := area_in p (ratio n G).
Definition low_of (a : option (Z * Z)) : Z := match a with Some (l, _) => l | None => (-1)%Z end.

(** At a place: the integrals to the lower end and over the support, at it and a distance s on; and what is left of delta. *)
Record place := Place { at_ : Z; to_low : option (Z * Z); all : option (Z * Z); to_low' : option (Z * Z); all' : option (Z * Z); left_ : option (Z * Z) }.
Definition tilt_at (z a : Z) : option (Z * Z) := exp_in p (ratio (S * S - 2 * S * (z - a)) (2 * G * G)).
Definition placed (a z : Z) : place :=
  let b := area_to (L - a) in let w := area_to (U - a) -: b in
  let b' := area_to (L - a - S) in let w' := area_to (U - a - S) -: b' in
  let r := tilt_at z a in
  Place a b w b' w' (d -: (area_to (z - a) -: b -: r *: (area_to (z - a - S) -: b')) *: inverse_in p w).
Definition crossed (z : Z) (q : place) : bool := (0 <=? low_of (k *: all q -: tilt_at z (at_ q) *: all' q))%Z.
Definition bent (q : place) (z b : Z) : option (Z * Z) :=
  let w := (b - at_ q)%Z in
  ((area_to (z - at_ q) -: to_low q) *: inverse_in p (all q)
    +: k *: ratio ((U - L) * (U - L)) (G * G) *: ((area_to (z - at_ q - S) -: to_low' q) *: inverse_in p (all' q))) *: ratio (w * w) (2 * G * G).
Definition between (c e0 e1 : option (Z * Z)) : bool :=
  match c, e0, e1 with
  | Some (_, c), Some (e0, _), Some (e1, _) =>
    ((0 <=? e0) && (0 <=? e1) && ((c <=? e0 + e1) || ((c - e0 - e1) * (c - e0 - e1) <=? 4 * (e0 * e1))))%Z%bool
  | _, _, _ => false
  end.
Fixpoint checked (q : place) (more : list (Z * Z)) : bool :=
  match more with
  | [] => true
  | (b, z) :: more => let q' := placed b z in
    ((at_ q <? b) && (L <=? z) && (z <=? U) && crossed z q' && between (bent q z b) (left_ q) (left_ q') && checked q' more)%Z%bool
  end.
Definition check (nodes : list (Z * Z)) : bool :=
  match nodes with
  | [] => false
  | (a, z) :: more => let q := placed a z in
    ((L <? U) && (0 <? S) && crossed z q && (0 <=? low_of (left_ q)) && checked q more)%Z%bool
  end.

(** Why a check is a proof. *)
Variables eps delta : R.
Hypothesis Hk : around p k (exp eps).
Hypothesis Hd : around p d delta.
Let at_place (n : Z) : R := IZR n / IZR (Zpos G).
Let l := at_place L.
Let u := at_place U.
Let s := at_place S.

Lemma G_pos : 0 < IZR (Zpos G).
Proof. apply IZR_lt. lia. Qed.

Lemma place_minus : forall a b, at_place (a - b) = at_place a - at_place b.
Proof. intros. unfold at_place. rewrite minus_IZR. assert (P := G_pos). field. lra. Qed.

Lemma place_less : forall a b, (a <= b)%Z -> at_place a <= at_place b.
Proof. intros. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, G_pos | now apply IZR_le]. Qed.

Lemma place_less_strictly : forall a b, (a < b)%Z -> at_place a < at_place b.
Proof. intros. apply Rmult_lt_compat_r; [apply Rinv_0_lt_compat, G_pos | now apply IZR_lt]. Qed.

Lemma ratio_ok : forall n m, around p (ratio n m) (IZR n / IZR (Zpos m)).
Proof. intros n m. exact (of_fraction_ok p (Qmake n m)). Qed.

Lemma area_to_ok : forall n, around p (area_to n) (RInt bell 0 (at_place n)).
Proof. intro. apply area_ok, ratio_ok. Qed.

Lemma minus_ok : forall a b x y, around p a x -> around p b y -> around p (a -: b) (x - y).
Proof. intros. apply sum_ok; [assumption | now apply opposite_ok]. Qed.

Lemma tilt_ok : forall z a, around p (tilt_at z a) (tilt s (at_place z) (at_place a)).
Proof.
  intros z a. unfold tilt_at, tilt. apply exp_ok.
  replace (s ^ 2 / 2 - s * (at_place z - at_place a)) with (IZR (S * S - 2 * S * (z - a)) / IZR (Zpos (2 * G * G))); [apply ratio_ok|].
  assert (P := G_pos). unfold s, at_place. rewrite !Pos2Z.inj_mul, !minus_IZR, !mult_IZR, !minus_IZR. field. lra.
Qed.

Definition sound (q : place) : Prop :=
  let a := at_place (at_ q) in
  around p (to_low q) (RInt bell 0 (l - a)) /\ around p (all q) (whole l u a)
  /\ around p (to_low' q) (RInt bell 0 (l - (a + s))) /\ around p (all' q) (whole l u (a + s))
  /\ exists e, around p (left_ q) e /\ forall y, l <= y <= u -> stick l u s (exp eps) y a <= delta - e.

Lemma low_of_ok : forall b x, around p b x -> (0 <=? low_of b)%Z = true -> 0 <= x.
Proof.
  intros [[a h]|] x H; simpl; [|discriminate]. intro L0. apply Z.leb_le, IZR_le in L0. destruct (H _ _ eq_refl) as [A _].
  unfold at_least in A. assert (P := one_pos' p). nra.
Qed.

Hypothesis Hlu : l < u.
Hypothesis Hs : 0 < s.

Lemma crossed_ok : forall z a, crossed z (placed a z) = true ->
  tilt s (at_place z) (at_place a) * whole l u (at_place a + s) <= exp eps * whole l u (at_place a).
Proof.
  intros z a. unfold crossed, placed. cbv zeta. cbn [all all' at_]. intro H.
  enough (0 <= exp eps * whole l u (at_place a) - tilt s (at_place z) (at_place a) * whole l u (at_place a + s)) by lra.
  revert H. apply low_of_ok. unfold whole, u, l, s.
  replace (at_place U - (at_place a + at_place S)) with (at_place (U - a - S)) by (rewrite !place_minus; ring).
  replace (at_place L - (at_place a + at_place S)) with (at_place (L - a - S)) by (rewrite !place_minus; ring). rewrite <- !place_minus.
  apply minus_ok; apply product_ok; try assumption; try (apply minus_ok; apply area_to_ok). apply tilt_ok.
Qed.

Lemma placed_ok : forall a z, crossed z (placed a z) = true -> sound (placed a z).
Proof.
  intros a z C. assert (K := crossed_ok z a C). unfold sound, placed. cbv zeta. cbn [at_ to_low all to_low' all' left_].
  assert (E : l - (at_place a + s) = at_place (L - a - S)) by (unfold l, s; rewrite !place_minus; ring).
  assert (E' : u - (at_place a + s) = at_place (U - a - S)) by (unfold u, s; rewrite !place_minus; ring).
  assert (F : l - at_place a = at_place (L - a)) by (unfold l; rewrite place_minus; ring).
  assert (F' : u - at_place a = at_place (U - a)) by (unfold u; rewrite place_minus; ring).
  assert (W : around p (area_to (U - a) -: area_to (L - a)) (whole l u (at_place a))).
  { unfold whole. rewrite F, F'. apply minus_ok; apply area_to_ok. }
  split; [rewrite F; apply area_to_ok|]. split; [exact W|]. split; [rewrite E; apply area_to_ok|].
  split; [unfold whole; rewrite E, E'; apply minus_ok; apply area_to_ok|].
  exists (delta - (beneath l (at_place z) (at_place a) - tilt s (at_place z) (at_place a) * beneath l (at_place z) (at_place a + s)) / whole l u (at_place a)).
  split.
  - apply minus_ok; [assumption|]. apply product_ok; [|now apply inverse_ok].
    assert (D : at_place z - (at_place a + s) = at_place (z - a - S)) by (unfold s; rewrite !place_minus; ring).
    apply minus_ok; [|apply product_ok; [apply tilt_ok|]].
    + unfold beneath. rewrite F, <- place_minus. apply minus_ok; apply area_to_ok.
    + unfold beneath. rewrite E, D. apply minus_ok; apply area_to_ok.
  - intros y Hy. assert (N := node l u Hlu s (exp eps) Hs (at_place z) (at_place a) y ltac:(lra) K). lra.
Qed.

Lemma between_ok : forall c e0 e1 c' e0' e1', around p c c' -> around p e0 e0' -> around p e1 e1' -> between c e0 e1 = true ->
  exists f g h, c' <= f /\ 0 <= g <= e0' /\ 0 <= h <= e1' /\ (f <= g + h \/ (f - g - h) ^ 2 <= 4 * (g * h)).
Proof.
  intros [[cl c]|] [[e0 eh]|] [[e1 fh]|] c' e0' e1' C E0 E1; try discriminate. unfold between. intro B.
  apply andb_prop in B. destruct B as [B1 B]. apply andb_prop in B1. destruct B1 as [B0 B1]. apply Z.leb_le, IZR_le in B0, B1.
  destruct (C _ _ eq_refl) as [_ Ch]. destruct (E0 _ _ eq_refl) as [E0l _]. destruct (E1 _ _ eq_refl) as [E1l _].
  assert (P := one_pos' p). set (o := IZR (one p)) in *. assert (I := Rinv_0_lt_compat _ P).
  exists (IZR c / o), (IZR e0 / o), (IZR e1 / o). unfold at_least, at_most in *. fold o in Ch, E0l, E1l.
  assert (Q : forall x y, x <= y * o -> x / o <= y).
  { intros x y H. apply Rmult_le_reg_r with o; [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  assert (Q' : forall x y, y * o <= x -> y <= x / o).
  { intros x y H. apply Rmult_le_reg_r with o; [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  split; [now apply Q'|]. split; [split; [now apply Rdiv_le_0_compat | now apply Q]|]. split; [split; [now apply Rdiv_le_0_compat | now apply Q]|].
  apply orb_prop in B. destruct B as [B|B]; apply Z.leb_le, IZR_le in B.
  - left. rewrite plus_IZR in B. unfold Rdiv. rewrite <- Rmult_plus_distr_r. apply Rmult_le_compat_r; lra.
  - right. rewrite !mult_IZR, !minus_IZR in B.
    replace ((IZR c / o - IZR e0 / o - IZR e1 / o) ^ 2) with ((IZR c - IZR e0 - IZR e1) * (IZR c - IZR e0 - IZR e1) * (/ o * / o)) by (unfold Rdiv; ring).
    replace (4 * (IZR e0 / o * (IZR e1 / o))) with (4 * (IZR e0 * IZR e1) * (/ o * / o)) by (unfold Rdiv; ring).
    apply Rmult_le_compat_r; [nra | exact B].
Qed.

Lemma bent_ok : forall q z b, sound q -> around p (bent q z b)
  ((cdf l u (at_place z) (at_place (at_ q)) + exp eps * (u - l) ^ 2 * cdf l u (at_place z) (at_place (at_ q) + s)) * (at_place b - at_place (at_ q)) ^ 2 / 2).
Proof.
  intros q z b [A [B [A' [B' _]]]]. unfold bent. cbv zeta. assert (P := G_pos).
  set (X := cdf l u (at_place z) (at_place (at_ q)) + exp eps * (u - l) ^ 2 * cdf l u (at_place z) (at_place (at_ q) + s)).
  replace (X * (at_place b - at_place (at_ q)) ^ 2 / 2) with (X * (IZR ((b - at_ q) * (b - at_ q)) / IZR (Zpos (2 * G * G))))
    by (unfold at_place; rewrite !Pos2Z.inj_mul, !mult_IZR, !minus_IZR; field; lra).
  apply product_ok; [|apply ratio_ok]. unfold X. apply sum_ok; [|apply product_ok; [apply product_ok; [assumption|]|]].
  - unfold cdf, beneath. apply product_ok; [|now apply inverse_ok]. rewrite <- place_minus. apply minus_ok; [apply area_to_ok | assumption].
  - replace ((u - l) ^ 2) with (IZR ((U - L) * (U - L)) / IZR (Zpos (G * G))); [apply ratio_ok|].
    unfold u, l, at_place. rewrite Pos2Z.inj_mul, !mult_IZR, !minus_IZR. field. lra.
  - unfold cdf, beneath. apply product_ok; [|now apply inverse_ok].
    replace (at_place z - (at_place (at_ q) + s)) with (at_place (z - at_ q - S)) by (unfold s; rewrite !place_minus; ring).
    apply minus_ok; [apply area_to_ok | assumption].
Qed.

Lemma last_of : forall (more : list Z) b c, List.last (b :: more) c = List.last more b.
Proof.
  induction more as [|d' more IH]; intros b c; [reflexivity|].
  change (List.last (d' :: more) c = List.last (d' :: more) b). now rewrite !IH.
Qed.

Lemma checked_ok : forall more q, sound q -> (0 <=? low_of (left_ q))%Z = true -> checked q more = true ->
  forall a y, at_place (at_ q) <= a <= at_place (List.last (map fst more) (at_ q)) -> l <= y <= u -> stick l u s (exp eps) y a <= delta.
Proof.
  induction more as [|[b z] more IH]; intros q Q E H a y Ha Hy.
  - simpl in Ha. replace a with (at_place (at_ q)) by lra. destruct Q as [_ [_ [_ [_ [e [Qe Qs]]]]]].
    assert (X := low_of_ok _ _ Qe E). assert (Y := Qs y Hy). lra.
  - cbn [checked] in H. cbv zeta in H. apply andb_prop in H. destruct H as [H R]. apply andb_prop in H. destruct H as [H Bt].
    apply andb_prop in H. destruct H as [H C]. apply andb_prop in H. destruct H as [H ZU]. apply andb_prop in H. destruct H as [AB LZ].
    apply Z.ltb_lt, place_less_strictly in AB. apply Z.leb_le, place_less in LZ, ZU. fold l in LZ. fold u in ZU.
    assert (Q' := placed_ok b z C). assert (K := crossed_ok z b C).
    assert (Ab : at_ (placed b z) = b) by reflexivity.
    assert (Low : (0 <=? low_of (left_ (placed b z)))%Z = true).
    { revert Bt. unfold between. destruct (bent q z b) as [[? ?]|]; [|discriminate]. destruct (left_ q) as [[? ?]|]; [|discriminate].
      destruct (left_ (placed b z)) as [[? ?]|]; [|discriminate]. intro Bt. simpl. apply andb_prop in Bt. destruct Bt as [Bt _].
      apply andb_prop in Bt. apply Bt. }
    destruct (Rle_dec a (at_place b)) as [N|N].
    + destruct Q' as [_ [_ [_ [_ [e1 [Q1 S1]]]]]]. assert (Bo := bent_ok q z b Q). destruct Q as [_ [_ [_ [_ [e0 [Q0 S0]]]]]].
      destruct (between_ok _ _ _ _ _ _ Bo Q0 Q1 Bt) as [f [g [h [F0 [F1 [F2 F3]]]]]].
      set (a0 := at_place (at_ q)) in *. set (w := at_place b - a0).
      replace (at_place b - a0) with w in F0 by reflexivity. rewrite Ab in S1.
      apply (cell l u Hlu s (exp eps) Hs (exp_pos eps)) with (a := a0) (w := w) (z := at_place z) (e0 := g) (e1 := h) (c := f);
        replace (a0 + w) with (at_place b) by (unfold w; ring); try assumption; try lra; try (unfold w; lra).
      * intros v Hv. assert (X := S0 v Hv). lra.
      * intros v Hv. assert (X := S1 v Hv). lra.
    + apply (IH (placed b z)); try assumption. rewrite Ab. split; [lra|]. apply Rle_trans with (1 := proj2 Ha).
      right. f_equal. apply last_of.
Qed.
End Check.

Theorem check_ok : forall p L U S G k d nodes eps delta unit sigma l u s first last, 0 < unit ->
  sigma = IZR (Zpos G) / unit -> l = IZR L / unit -> u = IZR U / unit -> s = IZR S / unit ->
  IZR (fst (hd (0%Z, 0%Z) nodes)) / unit = first -> IZR (List.last (map fst (tl nodes)) (fst (hd (0%Z, 0%Z) nodes))) / unit = last - s ->
  around p k (exp eps) -> around p d delta -> check p L U S G k d nodes = true -> all_thresholds sigma s eps delta l u first last.
Proof.
  intros p L U S G k d nodes eps delta unit sigma l u s first last Hu -> -> -> -> Hf Ht Hk Hd H a z Ha Hz.
  assert (P := G_pos G). destruct nodes as [|[a0 z0] more]; [discriminate|]. simpl fst in *. simpl tl in *. simpl hd in *.
  cbn [check] in H. cbv zeta in H. apply andb_prop in H. destruct H as [H R]. apply andb_prop in H. destruct H as [H E].
  apply andb_prop in H. destruct H as [H C]. apply andb_prop in H. destruct H as [LU S0]. apply Z.ltb_lt in LU, S0.
  assert (Q : forall n, IZR n / unit / (IZR (Zpos G) / unit) = IZR n / IZR (Zpos G)) by (intro; field; lra).
  assert (Le : forall x y, x <= y -> x / (IZR (Zpos G) / unit) <= y / (IZR (Zpos G) / unit)).
  { intros. apply Rmult_le_compat_r; [|assumption]. left. apply Rinv_0_lt_compat, Rdiv_lt_0_compat; assumption. }
  rewrite !Q. assert (Hl := place_less_strictly G L U LU). assert (Hs := place_less_strictly G 0 S S0).
  cbv beta in Hl, Hs. replace (IZR 0 / IZR (Zpos G)) with 0 in Hs by (unfold Rdiv; ring).
  apply (checked_ok p L U S G k d eps delta Hk Hd Hl Hs more (placed p L U S G d a0 z0)); try assumption.
  - now apply placed_ok with (k := k).
  - change (at_ (placed p L U S G d a0 z0)) with a0. rewrite <- (Q a0), <- (Q (List.last (map fst more) a0)), Hf, Ht. split; apply Le; lra.
  - rewrite <- (Q L), <- (Q U). split; apply Le; lra.
Qed.

(** The bounds that a check begins with, read off epsilon and delta. *)
Ltac enclosed := lazymatch goal with |- around ?p _ ?x => let t := reify x in exact (enclose_ok p t) end.
Ltac places_checked :=
  lazymatch goal with
  | |- around _ _ _ => enclosed
  | |- @eq bool _ _ => vm_cast_no_check (eq_refl true)
  | |- _ => cbn [hd tl fst map List.last]; lra
  end.
