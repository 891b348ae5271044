(** Gaussian noise on the whole line at a delta, and what is made of it: clamped to an interval, rounded to a grid. *)
From Coq Require Import Reals ZArith Lra Psatz Lia.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy HockeyStick Bell.
Open Scope R_scope.

(** The integral of the bell from minus infinity to z. *)
Definition below (z : R) : R := half + RInt bell 0 z.

(** Noise of scale sigma: the probability that it is at most z, and the density of the output at the answer x. *)
Definition at_most (sigma z : R) : R := below (z / sigma) / (2 * half).
Definition density (sigma x y : R) : R := bell ((y - x) / sigma) / (2 * half * sigma).

Lemma below_pos : forall z, 0 <= below z.
Proof. intro z. unfold below. assert (H := half_above (- z)). rewrite even in H. lra. Qed.

Lemma below_small : forall T, 0 < T -> below (- T) <= / T.
Proof.
  intros T HT. unfold below. rewrite even. assert (H := half_below T HT). assert (K := bell_le_1 T).
  assert (I := div_pos T HT). unfold Rdiv in H. nra.
Qed.

Lemma below_rises : forall y z, y <= z -> below y <= below z.
Proof. intros y z H. unfold below. rewrite <- (chasles 0 y z). assert (P := integral_pos y z H). lra. Qed.

(** [at_most] is the integral of the density. *)
Lemma at_most_is_integral : forall sigma x c d, 0 < sigma ->
  is_RInt (density sigma x) c d (at_most sigma (d - x) - at_most sigma (c - x)).
Proof.
  intros sigma x c d Hs. assert (Hh := half_pos). assert (I := div_pos sigma Hs).
  assert (J : is_RInt bell (/ sigma * c + - x / sigma) (/ sigma * d + - x / sigma)
    (RInt bell (/ sigma * c + - x / sigma) (/ sigma * d + - x / sigma)))
    by (apply (RInt_correct (V := R_CompleteNormedModule)), integrable).
  apply (is_RInt_comp_lin (V := R_NormedModule)) in J.
  apply (is_RInt_scal (V := R_NormedModule) _ _ _ (/ (2 * half))) in J.
  replace (at_most sigma (d - x) - at_most sigma (c - x))
    with (scal (/ (2 * half)) (RInt bell (/ sigma * c + - x / sigma) (/ sigma * d + - x / sigma)) : R).
  - revert J. apply is_RInt_ext. intros y _. unfold scal; simpl; unfold mult; simpl. unfold density.
    replace (/ sigma * y + - x / sigma) with ((y - x) / sigma) by (field; lra). field. lra.
  - unfold scal; simpl; unfold mult; simpl. unfold at_most, below.
    replace (/ sigma * c + - x / sigma) with ((c - x) / sigma) by (field; lra).
    replace (/ sigma * d + - x / sigma) with ((d - x) / sigma) by (field; lra).
    rewrite <- (chasles 0 ((c - x) / sigma) ((d - x) / sigma)). field. lra.
Qed.

Lemma continuous_density : forall sigma x y, 0 < sigma -> continuous (density sigma x) y.
Proof.
  intros. apply continuity_pt_filterlim, derivable_continuous_pt. unfold density, bell, Rdiv. reg.
Qed.

(** What half-lines find between two answers a standardised distance r apart, with a threshold at z. *)
Definition found (eps r z : R) : R := below z - exp eps * below (z - r).

Lemma slope : forall eps r z, 0 < r ->
  (z <= r / 2 - eps / r -> exp eps * bell (z - r) <= bell z) /\ (r / 2 - eps / r <= z -> bell z <= exp eps * bell (z - r)).
Proof.
  intros eps r z Hr. unfold bell. rewrite <- exp_plus. assert (I := div_pos r Hr).
  assert (E : eps / r * r = eps) by (field; lra).
  split; intro H; apply exp_le; apply Rmult_le_compat_r with (r := r) in H; try lra;
    rewrite Rmult_minus_distr_r, E in H; nra.
Qed.

Lemma found_between : forall eps r y z, RInt (fun t => bell t - exp eps * bell (t - r)) y z = found eps r z - found eps r y.
Proof.
  intros. apply (is_RInt_unique (V := R_CompleteNormedModule)). unfold found, below.
  replace (half + RInt bell 0 z - exp eps * (half + RInt bell 0 (z - r)) - (half + RInt bell 0 y - exp eps * (half + RInt bell 0 (y - r))))
    with (RInt bell y z - exp eps * RInt bell (y - r) (z - r))
    by (rewrite <- (chasles 0 y z), <- (chasles 0 (y - r) (z - r)); ring).
  apply (is_RInt_minus (V := R_NormedModule)); [apply (RInt_correct (V := R_CompleteNormedModule)), integrable|].
  apply (is_RInt_scal (V := R_NormedModule)).
  assert (J : is_RInt bell (1 * y + - r) (1 * z + - r) (RInt bell (y - r) (z - r))).
  { replace (1 * y + - r) with (y - r) by ring. replace (1 * z + - r) with (z - r) by ring.
    apply (RInt_correct (V := R_CompleteNormedModule)), integrable. }
  apply (is_RInt_comp_lin (V := R_NormedModule)) in J. revert J. apply is_RInt_ext. intros t _.
  unfold scal; simpl; unfold mult; simpl. replace (1 * t + - r) with (t - r) by ring. ring.
Qed.

Lemma between_integrable : forall eps r y z, ex_RInt (fun t => bell t - exp eps * bell (t - r)) y z.
Proof.
  intros. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros t _. apply continuity_pt_filterlim, derivable_continuous_pt.
  unfold bell, Rdiv. reg.
Qed.

Lemma found_most : forall eps r z, 0 < r -> found eps r z <= found eps r (r / 2 - eps / r).
Proof.
  intros eps r z Hr. set (a := r / 2 - eps / r). destruct (Rle_dec z a) as [L|L].
  - assert (P : 0 <= RInt (fun t => bell t - exp eps * bell (t - r)) z a).
    { apply RInt_ge_0; [assumption | apply between_integrable |]. intros t Ht.
      assert (S := proj1 (slope eps r t Hr)). fold a in S. specialize (S ltac:(lra)). lra. }
    rewrite found_between in P. lra.
  - apply Rnot_le_lt in L. assert (P : RInt (fun t => bell t - exp eps * bell (t - r)) a z <= RInt (fun _ => 0) a z).
    { apply RInt_le; [lra | apply between_integrable | apply ex_RInt_const |]. intros t Ht.
      assert (S := proj2 (slope eps r t Hr)). fold a in S. specialize (S ltac:(lra)). lra. }
    rewrite found_between, (RInt_const (V := R_CompleteNormedModule)) in P. unfold scal in P; simpl in P; unfold mult in P; simpl in P. lra.
Qed.

Lemma found_pos : forall eps r z, 0 < r -> z <= r / 2 - eps / r -> 0 <= found eps r z.
Proof.
  intros eps r z Hr Hz. apply le_epsilon. intros e He. set (k := exp eps). assert (Hk : 0 < k) by apply exp_pos.
  set (T := Rmax (- z) 0 + k / e + r + 1).
  assert (K : 0 < k / e) by now apply Rdiv_lt_0_compat.
  assert (H0 : - z <= Rmax (- z) 0) by apply Rmax_l. assert (H1 : 0 <= Rmax (- z) 0) by apply Rmax_r.
  assert (P : 0 <= RInt (fun t => bell t - exp eps * bell (t - r)) (- T) z).
  { apply RInt_ge_0; [unfold T; lra | apply between_integrable |]. intros t Ht.
    assert (S := proj1 (slope eps r t Hr) ltac:(lra)). lra. }
  rewrite found_between in P. unfold found in P |- *. fold k in P |- *.
  assert (B := below_small (T + r) ltac:(unfold T; lra)). replace (- (T + r)) with (- T - r) in B by ring.
  assert (A := below_pos (- T)).
  assert (I : / (T + r) <= e / k).
  { replace (e / k) with (/ (k / e)) by (field; lra). apply Rinv_le_contravar; [assumption | unfold T; lra]. }
  assert (k * below (- T - r) <= e).
  { apply Rle_trans with (k * (e / k)); [apply Rmult_le_compat_l; lra | right; field; lra]. } lra.
Qed.

Section Theorem_.
Variables (sigma s eps delta : R).
Hypothesis Hsigma : 0 < sigma.
Hypothesis Hs : 0 < s.
Hypothesis Heps : 0 <= eps.
Hypothesis Hdelta : 0 <= delta.
Hypothesis Hfound : found eps (s / sigma) (s / sigma / 2 - eps / (s / sigma)) <= 2 * half * delta.

Lemma upward : forall x x' c d f, x <= x' <= x + s -> c <= d -> test f ->
  ex_RInt (fun y => density sigma x y * f y) c d -> ex_RInt (fun y => density sigma x' y * f y) c d ->
  RInt (fun y => density sigma x y * f y) c d <= exp eps * RInt (fun y => density sigma x' y * f y) c d + delta.
Proof.
  intros x x' c d f Hx Hcd Hf P Q. assert (Hh := half_pos). assert (I := div_pos sigma Hsigma).
  assert (W : 0 < 2 * half * sigma) by (repeat apply Rmult_lt_0_compat; lra).
  destruct (Req_dec x x') as [E|N].
  - subst x'. assert (0 <= RInt (fun y => density sigma x y * f y) c d).
    { apply RInt_ge_0; [assumption | assumption |]. intros y _. apply Rmult_le_pos; [|apply Hf].
      unfold density. apply Rmult_le_pos; [left; apply exp_pos | left; now apply Rinv_0_lt_compat]. }
    assert (1 <= exp eps) by now apply exp_ge_1. nra.
  - set (r := (x' - x) / sigma). assert (Hr : 0 < r) by (apply Rdiv_lt_0_compat; lra).
    set (m := x + sigma * (r / 2 - eps / r)).
    assert (Place : forall y, (y - x') / sigma = (y - x) / sigma - r) by (intro; unfold r; field; lra).
    assert (Left : forall y, y <= m -> (y - x) / sigma <= r / 2 - eps / r).
    { intros y Hy. apply Rmult_le_reg_r with sigma; [assumption|]. replace ((y - x) / sigma * sigma) with (y - x) by (field; lra).
      unfold m in Hy. lra. }
    assert (Right : forall y, m <= y -> r / 2 - eps / r <= (y - x) / sigma).
    { intros y Hy. apply Rmult_le_reg_r with sigma; [assumption|]. replace ((y - x) / sigma * sigma) with (y - x) by (field; lra).
      unfold m in Hy. lra. }
    apply one_crossing with (m := m); try assumption.
    + intro; now apply continuous_density.
    + intro; now apply continuous_density.
    + intros y Hy. unfold density. rewrite Place. assert (S := proj1 (slope eps r ((y - x) / sigma) Hr) (Left y Hy)).
      set (b1 := bell ((y - x) / sigma)) in *. set (b2 := bell ((y - x) / sigma - r)) in *.
      unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | exact S].
    + intros y Hy. unfold density. rewrite Place. assert (S := proj2 (slope eps r ((y - x) / sigma) Hr) (Right y Hy)).
      set (b1 := bell ((y - x) / sigma)) in *. set (b2 := bell ((y - x) / sigma - r)) in *.
      unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | exact S].
    + intros e He _.
      assert (J : is_RInt (fun y => density sigma x y - exp eps * density sigma x' y) c e
        (at_most sigma (e - x) - at_most sigma (c - x) - exp eps * (at_most sigma (e - x') - at_most sigma (c - x')))).
      { apply (is_RInt_minus (V := R_NormedModule)); [now apply at_most_is_integral|].
        apply (is_RInt_scal (V := R_NormedModule)). now apply at_most_is_integral. }
      rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ J). unfold at_most. rewrite !Place.
      assert (A : found eps r ((e - x) / sigma) <= 2 * half * delta).
      { apply Rle_trans with (found eps (s / sigma) ((e - x) / sigma)).
        - unfold found. assert (B : below ((e - x) / sigma - s / sigma) <= below ((e - x) / sigma - r)).
          { apply below_rises. unfold r, Rdiv. nra. } assert (0 < exp eps) by apply exp_pos. nra.
        - apply Rle_trans with (2 := Hfound). apply found_most. now apply Rdiv_lt_0_compat. }
      assert (B := found_pos eps r ((c - x) / sigma) Hr (Left c ltac:(lra))). unfold found in A, B.
      apply Rmult_le_reg_r with (2 * half); [lra|].
      match goal with |- ?g * _ <= _ => replace (g * (2 * half)) with
        ((below ((e - x) / sigma) - exp eps * below ((e - x) / sigma - r)) - (below ((c - x) / sigma) - exp eps * below ((c - x) / sigma - r)))
        by (field; lra) end. lra.
Qed.

Lemma both_ways : forall x x' c d f, Rabs (x - x') <= s -> c <= d -> test f ->
  ex_RInt (fun y => density sigma x y * f y) c d -> ex_RInt (fun y => density sigma x' y * f y) c d ->
  RInt (fun y => density sigma x y * f y) c d <= exp eps * RInt (fun y => density sigma x' y * f y) c d + delta.
Proof.
  intros x x' c d f Hx Hcd Hf P Q. destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in Hx by lra. apply upward; try assumption; lra.
  - rewrite Rabs_right in Hx by lra.
    assert (E : forall z y, density sigma (- z) y * f (- y) = (fun y => density sigma z y * f y) (- y)).
    { intros. cbv beta. f_equal. unfold density, bell. f_equal. f_equal. f_equal. f_equal. field. lra. }
    destruct (mirror _ _ c d (E x) P) as [P' EP]. destruct (mirror _ _ c d (E x') Q) as [Q' EQ].
    rewrite <- EP, <- EQ. apply upward; try assumption; try lra. intro y. apply Hf.
Qed.

(** Whatever is made of the noisy value, and whatever is then tested: clamped and rounded outputs are covered. *)
Theorem gaussian_tests : forall x x' f P Q, Rabs (x - x') <= s -> test f ->
  rejects (density sigma x) f P -> rejects (density sigma x') f Q -> P <= exp eps * Q + delta.
Proof.
  intros x x' f P Q Hx Hf HP HQ. apply (on_the_line (density sigma x) (density sigma x') f); try assumption.
  - left. apply exp_pos.
  - intros. now apply both_ways.
Qed.
End Theorem_.

(** A claim is refuted by the event that the noisy value is at most some number: y and z are its distances to two answers. *)
Lemma refuted : forall sigma eps delta y z,
  exp eps * below (y / sigma) + 2 * half * delta < below (z / sigma) -> exp eps * at_most sigma y + delta < at_most sigma z.
Proof.
  intros sigma eps delta y z H. assert (P := half_pos). unfold at_most. apply Rmult_lt_reg_r with (2 * half); [lra|].
  replace ((exp eps * (below (y / sigma) / (2 * half)) + delta) * (2 * half)) with (exp eps * below (y / sigma) + 2 * half * delta)
    by (field; lra).
  replace (below (z / sigma) / (2 * half) * (2 * half)) with (below (z / sigma)) by (field; lra). exact H.
Qed.

(** What is computed: half the whole integral stands in one place. *)
Lemma found_at_most : forall eps delta r z,
  RInt bell 0 z - exp eps * RInt bell 0 (z - r) <= half * (exp eps + 2 * delta - 1) -> found eps r z <= 2 * half * delta.
Proof. intros. unfold found, below. lra. Qed.

Lemma refuted_at : forall eps delta y z, half * (exp eps + 2 * delta - 1) < RInt bell 0 z - exp eps * RInt bell 0 y ->
  exp eps * below y + 2 * half * delta < below z.
Proof. intros. unfold below. lra. Qed.
