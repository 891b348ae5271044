(** Gaussian noise truncated to an interval: an exponential family, so the loss grows towards an end of the range. *)
From Coq Require Import Reals Lra Psatz.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy Bell.
Open Scope R_scope.

Definition weight (sigma x y : R) : R := exp (- (y - x) ^ 2 / (2 * sigma ^ 2)).
Definition mass (sigma l u x : R) : R := RInt (weight sigma x) l u.
Definition density (sigma l u x y : R) : R := weight sigma x y / mass sigma l u x.

Lemma continuous_weight : forall sigma x y, sigma <> 0 -> continuous (weight sigma x) y.
Proof.
  intros. apply continuity_pt_filterlim. unfold weight. apply derivable_continuous_pt.
  unfold Rdiv. reg.
Qed.

Lemma integrable : forall (f : R -> R) l u, (forall y, continuous f y) -> ex_RInt f l u.
Proof. intros. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros. apply H. Qed.

Lemma mass_pos : forall sigma l u x, sigma <> 0 -> l < u -> 0 < mass sigma l u x.
Proof.
  intros. unfold mass. apply RInt_gt_0; [assumption | intros; apply exp_pos |].
  intros. now apply continuous_weight.
Qed.

(** Chebyshev's inequality, for weights whose ratio rises: the mean of a rising function is larger under the later. *)
Lemma chebyshev : forall (f r w : R -> R) l u y0, l < u ->
  (forall y, continuous f y) -> (forall y, continuous r y) -> (forall y, continuous w y) ->
  (forall y, l <= y <= u -> 0 <= w y) ->
  (forall y, l <= y <= u -> 0 <= (f y - f y0) * (r y - r y0)) ->
  RInt (fun y => r y * w y) l u = r y0 * RInt w l u ->
  r y0 * RInt (fun y => f y * w y) l u <= RInt (fun y => f y * (r y * w y)) l u.
Proof.
  intros f r w l u y0 Hlu Cf Cr Cw Hw Hm Hc.
  assert (Crw : forall y, continuous (fun y => r y * w y) y) by (intro; now apply (continuous_mult (K := R_AbsRing))).
  assert (Cfw : forall y, continuous (fun y => f y * w y) y) by (intro; now apply (continuous_mult (K := R_AbsRing))).
  assert (Cfrw : forall y, continuous (fun y => f y * (r y * w y)) y)
    by (intro; apply (continuous_mult (K := R_AbsRing)); [apply Cf | apply Crw]).
  assert (I1 := integrable _ l u Crw). assert (I2 := integrable _ l u Cfw).
  assert (I3 := integrable _ l u Cfrw). assert (I0 := integrable _ l u Cw).
  assert (P : 0 <= RInt (fun y => minus (minus (f y * (r y * w y)) (scal (r y0) (f y * w y)))
                              (minus (scal (f y0) (r y * w y)) (scal (f y0 * r y0) (w y)))) l u).
  { apply RInt_ge_0; [lra | |].
    - apply (ex_RInt_minus (V := R_NormedModule)).
      + apply (ex_RInt_minus (V := R_NormedModule)); [assumption | now apply (ex_RInt_scal (V := R_NormedModule))].
      + apply (ex_RInt_minus (V := R_NormedModule)); now apply (ex_RInt_scal (V := R_NormedModule)).
    - intros y Hy. assert (M := Hm y ltac:(lra)). assert (W := Hw y ltac:(lra)).
      unfold minus, plus, opp, scal; simpl; unfold mult; simpl.
      replace (f y * (r y * w y) + - (r y0 * (f y * w y)) + - (f y0 * (r y * w y) + - (f y0 * r y0 * w y)))
        with ((f y - f y0) * (r y - r y0) * w y) by ring.
      now apply Rmult_le_pos. }
  rewrite (RInt_minus (V := R_CompleteNormedModule)) in P.
  2: { apply (ex_RInt_minus (V := R_NormedModule)); [assumption | now apply (ex_RInt_scal (V := R_NormedModule))]. }
  2: { apply (ex_RInt_minus (V := R_NormedModule)); now apply (ex_RInt_scal (V := R_NormedModule)). }
  rewrite !(RInt_minus (V := R_CompleteNormedModule)) in P;
    try assumption; try now apply (ex_RInt_scal (V := R_NormedModule)).
  rewrite !(RInt_scal (V := R_CompleteNormedModule)) in P by assumption.
  unfold minus, plus, opp, scal in P; simpl in P; unfold mult in P; simpl in P. rewrite Hc in P. lra.
Qed.

Lemma exp_rises : forall k y z, 0 <= k -> 0 <= (exp (k * y) - exp (k * z)) * (y - z).
Proof.
  intros k y z Hk. destruct (Rle_dec y z).
  - assert (exp (k * y) <= exp (k * z)) by (apply exp_le; nra). nra.
  - assert (exp (k * z) <= exp (k * y)) by (apply exp_le; nra). nra.
Qed.

(** The density at the answer x + d is that at x times exp(k y), up to a constant. *)
Lemma tilted : forall sigma x d y, sigma <> 0 ->
  weight sigma (x + d) y = exp (- (d * (2 * x + d)) / (2 * sigma ^ 2)) * (exp (d / sigma ^ 2 * y) * weight sigma x y).
Proof.
  intros. unfold weight. rewrite <- !exp_plus. f_equal. field. assumption.
Qed.

Lemma continuous_exp_linear : forall k y, continuous (fun y => exp (k * y)) y.
Proof. intros. apply continuity_pt_filterlim, derivable_continuous_pt. reg. Qed.

(** Log-convexity of the moment generating function: with T(d, x) the mean of exp(d y / sigma^2) at the answer x. *)
Lemma tilts_grow : forall sigma l u p q d, sigma <> 0 -> l < u -> p <= q -> 0 <= d ->
  RInt (fun y => exp (d / sigma ^ 2 * y) * weight sigma p y) l u * mass sigma l u q
  <= RInt (fun y => exp (d / sigma ^ 2 * y) * weight sigma q y) l u * mass sigma l u p.
Proof.
  intros sigma l u p q d Hs Hlu Hpq Hd.
  assert (S2 : 0 < sigma ^ 2) by (apply pow2_gt_0; assumption). assert (SI := div_pos _ S2).
  destruct (Req_dec p q) as [E|N]; [subst; lra|].
  set (g := (q - p) / sigma ^ 2). assert (Hg : 0 < g) by (unfold g, Rdiv; apply Rmult_lt_0_compat; lra).
  set (f := fun y => exp (d / sigma ^ 2 * y)). set (r := fun y => exp (g * y)). set (w := weight sigma p).
  set (C := exp (- ((q - p) * (2 * p + (q - p))) / (2 * sigma ^ 2))). assert (HC : 0 < C) by apply exp_pos.
  assert (Hq : forall y, weight sigma q y = C * (r y * w y)).
  { intro y. replace q with (p + (q - p)) at 1 by ring. rewrite tilted by assumption. reflexivity. }
  assert (Cf : forall y, continuous f y) by apply continuous_exp_linear.
  assert (Cr : forall y, continuous r y) by apply continuous_exp_linear.
  assert (Cw : forall y, continuous w y) by (intro; now apply continuous_weight).
  assert (Crw : forall y, continuous (fun y => r y * w y) y) by (intro; now apply (continuous_mult (K := R_AbsRing))).
  assert (Cfrw : forall y, continuous (fun y => f y * (r y * w y)) y)
    by (intro; apply (continuous_mult (K := R_AbsRing)); [apply Cf | apply Crw]).
  assert (Mq : mass sigma l u q = C * RInt (fun y => r y * w y) l u).
  { unfold mass. rewrite (RInt_ext _ (fun y => C * (r y * w y))) by (intros; apply Hq).
    exact (RInt_scal (V := R_CompleteNormedModule) _ l u C (integrable _ l u Crw)). }
  assert (Nq : RInt (fun y => f y * weight sigma q y) l u = C * RInt (fun y => f y * (r y * w y)) l u).
  { rewrite (RInt_ext _ (fun y => C * (f y * (r y * w y))))
      by (intros y _; assert (E : f y * weight sigma q y = C * (f y * (r y * w y)) :> R) by (rewrite Hq; ring); exact E).
    exact (RInt_scal (V := R_CompleteNormedModule) _ l u C (integrable _ l u Cfrw)). }
  assert (Mp := mass_pos sigma l u p Hs Hlu). fold w in Mp. unfold mass in Mp. fold w in Mp.
  assert (Rp : 0 < RInt (fun y => r y * w y) l u).
  { assert (0 < mass sigma l u q) by now apply mass_pos. rewrite Mq in H. nra. }
  set (A := RInt (fun y => r y * w y) l u : R) in *. set (B := RInt w l u : R) in *.
  set (c := A / B).
  assert (Hc : 0 < c) by (unfold c, Rdiv; apply Rmult_lt_0_compat; [assumption | now apply Rinv_0_lt_compat]).
  set (y0 := ln c / g). assert (Hr : r y0 = c) by (unfold r, y0; replace (g * (ln c / g)) with (ln c) by (field; lra); now apply exp_ln).
  assert (K : r y0 * RInt (fun y => f y * w y) l u <= RInt (fun y => f y * (r y * w y)) l u).
  { apply chebyshev; try assumption.
    - intros. left. apply exp_pos.
    - intros y Hy. assert (EF := exp_rises (d / sigma ^ 2) y y0 ltac:(unfold Rdiv; nra)).
      assert (EG := exp_rises g y y0 ltac:(lra)). fold (f y) (f y0) in EF. fold (r y) (r y0) in EG.
      change (exp (d / sigma ^ 2 * y)) with (f y) in EF. change (exp (d / sigma ^ 2 * y0)) with (f y0) in EF.
      change (exp (g * y)) with (r y) in EG. change (exp (g * y0)) with (r y0) in EG.
      set (F := f y - f y0) in *. set (G := r y - r y0) in *.
      destruct (Rtotal_order y y0) as [L|[L|L]].
      + assert (F <= 0) by nra. assert (G <= 0) by nra. nra.
      + unfold F, G. subst. lra.
      + assert (0 <= F) by nra. assert (0 <= G) by nra. nra.
    - assert (EE : A = c * B :> R) by (unfold c; field; lra). rewrite Hr. exact EE. }
  change (RInt (fun y => f y * w y) l u * mass sigma l u q <= RInt (fun y => f y * weight sigma q y) l u * mass sigma l u p).
  rewrite Mq, Nq. change (mass sigma l u p) with B. rewrite Hr in K.
  set (D := RInt (fun y => f y * w y) l u : R) in *. set (E := RInt (fun y => f y * (r y * w y)) l u : R) in *.
  assert (EA : A = c * B :> R) by (unfold c; field; lra). rewrite EA.
  assert (P : 0 < C * B) by now apply Rmult_lt_0_compat.
  assert (C * B * (c * D) <= C * B * E) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** The moment generating function of the output at the answer l, at the place of x: the loss is a ratio of two of it. *)
Definition moment (sigma l u x : R) : R := exp ((x - l) ^ 2 / (2 * sigma ^ 2)) * mass sigma l u x.

Lemma moment_pos : forall sigma l u x, sigma <> 0 -> l < u -> 0 < moment sigma l u x.
Proof. intros. apply Rmult_lt_0_compat; [apply exp_pos | now apply mass_pos]. Qed.

Lemma tilt_integrable : forall sigma l u x k, sigma <> 0 -> ex_RInt (fun y => exp (k * y) * weight sigma x y) l u.
Proof.
  intros. apply integrable. intro. apply (continuous_mult (K := R_AbsRing));
    [apply continuous_exp_linear | now apply continuous_weight].
Qed.

Lemma moment_shift : forall sigma l u x d, sigma <> 0 -> moment sigma l u (x + d)
  = exp ((x - l) ^ 2 / (2 * sigma ^ 2)) * (exp (- (d / sigma ^ 2 * l)) * RInt (fun y => exp (d / sigma ^ 2 * y) * weight sigma x y) l u).
Proof.
  intros sigma l u x d Hs. unfold moment, mass.
  set (C := exp (- (d * (2 * x + d)) / (2 * sigma ^ 2))).
  rewrite (RInt_ext _ (fun y => C * (exp (d / sigma ^ 2 * y) * weight sigma x y))) by (intros; now apply tilted).
  replace (RInt (fun y => C * (exp (d / sigma ^ 2 * y) * weight sigma x y)) l u)
    with (C * RInt (fun y => exp (d / sigma ^ 2 * y) * weight sigma x y) l u)
    by (symmetry; exact (RInt_scal (V := R_CompleteNormedModule) _ l u C (tilt_integrable sigma l u x _ Hs))).
  set (I := RInt (fun y => exp (d / sigma ^ 2 * y) * weight sigma x y) l u : R).
  rewrite <- !Rmult_assoc. f_equal. unfold C. rewrite <- !exp_plus. f_equal. field. assumption.
Qed.

Lemma moment_rises : forall sigma l u x d, sigma <> 0 -> l < u -> 0 <= d -> moment sigma l u x <= moment sigma l u (x + d).
Proof.
  intros sigma l u x d Hs Hlu Hd. rewrite moment_shift by assumption. unfold moment.
  apply Rmult_le_compat_l; [left; apply exp_pos|].
  replace (exp (- (d / sigma ^ 2 * l)) * RInt (fun y => exp (d / sigma ^ 2 * y) * weight sigma x y) l u)
    with (RInt (fun y => exp (- (d / sigma ^ 2 * l)) * (exp (d / sigma ^ 2 * y) * weight sigma x y)) l u)
    by exact (RInt_scal (V := R_CompleteNormedModule) _ l u _ (tilt_integrable sigma l u x _ Hs)).
  unfold mass. apply RInt_le; [lra | | |].
  - apply integrable. intro. now apply continuous_weight.
  - exact (ex_RInt_scal (V := R_NormedModule) _ l u _ (tilt_integrable sigma l u x _ Hs)).
  - intros y Hy. rewrite <- Rmult_assoc, <- exp_plus. rewrite <- (Rmult_1_l (weight sigma x y)) at 1.
    apply Rmult_le_compat_r; [left; apply exp_pos|]. apply exp_ge_1.
    assert (0 <= d / sigma ^ 2).
    { unfold Rdiv. apply Rmult_le_pos; [assumption|]. left. apply div_pos, pow2_gt_0, Hs. } nra.
Qed.

Lemma log_convex : forall sigma l u x p d, sigma <> 0 -> l < u -> x <= p -> 0 <= d ->
  moment sigma l u (x + d) * moment sigma l u p <= moment sigma l u (p + d) * moment sigma l u x.
Proof.
  intros sigma l u x p d Hs Hlu Hxp Hd. assert (T := tilts_grow sigma l u x p d Hs Hlu Hxp Hd).
  rewrite !moment_shift by assumption. unfold moment.
  set (X := exp ((x - l) ^ 2 / (2 * sigma ^ 2))). set (P := exp ((p - l) ^ 2 / (2 * sigma ^ 2))).
  set (c := exp (- (d / sigma ^ 2 * l))).
  assert (0 < X) by apply exp_pos. assert (0 < P) by apply exp_pos. assert (0 < c) by apply exp_pos.
  assert (K : 0 <= X * P * c) by (repeat apply Rmult_le_pos; lra).
  apply (Rmult_le_compat_l _ _ _ K) in T. lra.
Qed.

(** Seen from the other end. *)
Lemma mirrored : forall sigma l u x, sigma <> 0 -> mass sigma (- u) (- l) (- x) = mass sigma l u x.
Proof.
  intros sigma l u x N. unfold mass at 1. apply is_RInt_unique.
  assert (I : is_RInt (weight sigma x) l u (mass sigma l u x)).
  { apply (RInt_correct (V := R_CompleteNormedModule)), integrable. intro. now apply continuous_weight. }
  apply is_RInt_swap in I.
  assert (J : is_RInt (weight sigma x) (- - u) (- - l) (opp (mass sigma l u x))) by now rewrite !Ropp_involutive.
  apply (is_RInt_comp_opp (V := R_NormedModule)) in J. apply (is_RInt_opp (V := R_NormedModule)) in J.
  rewrite (opp_opp (G := R_AbelianGroup)) in J. revert J. apply is_RInt_ext. intros y _.
  rewrite (opp_opp (G := R_AbelianGroup)). unfold weight. f_equal. f_equal. ring.
Qed.

Lemma moments_near : forall sigma s eps l u last x x', 0 < sigma -> 0 < s -> l < u -> moment sigma l u last <= exp eps * moment sigma l u (last - s) ->
  x <= x' <= last -> x' - x <= s -> moment sigma l u x' <= exp eps * moment sigma l u x.
Proof.
  intros sigma s eps l u last x x' Hsigma Hs Hlu H Hx Hd. assert (N : sigma <> 0) by lra.
  destruct (Rle_dec x (last - s)) as [L|L].
  - assert (K := log_convex sigma l u x (last - s) s N Hlu L ltac:(lra)).
    replace (last - s + s) with last in K by ring.
    assert (R1 := moment_rises sigma l u x' (x + s - x') N Hlu ltac:(lra)).
    replace (x' + (x + s - x')) with (x + s) in R1 by ring. apply Rle_trans with (1 := R1).
    assert (M := moment_pos sigma l u (last - s) N Hlu). assert (Mx := moment_pos sigma l u x N Hlu).
    apply Rmult_le_reg_r with (1 := M). apply Rle_trans with (1 := K).
    replace (exp eps * moment sigma l u x * moment sigma l u (last - s))
      with (exp eps * moment sigma l u (last - s) * moment sigma l u x) by ring.
    apply Rmult_le_compat_r; lra.
  - assert (R1 := moment_rises sigma l u x' (last - x') N Hlu ltac:(lra)). replace (x' + (last - x')) with last in R1 by ring.
    assert (R2 := moment_rises sigma l u (last - s) (x - (last - s)) N Hlu ltac:(lra)).
    replace (last - s + (x - (last - s))) with x in R2 by ring.
    assert (exp eps * moment sigma l u (last - s) <= exp eps * moment sigma l u x)
      by (apply Rmult_le_compat_l; [left; apply exp_pos | assumption]). lra.
Qed.

Lemma density_near : forall sigma eps l u x x' y, 0 < sigma -> l < u -> l <= y -> x <= x' ->
  moment sigma l u x' <= exp eps * moment sigma l u x -> density sigma l u x y <= exp eps * density sigma l u x' y.
Proof.
  intros sigma eps l u x x' y Hsigma Hlu Hy Hx H. assert (N : sigma <> 0) by lra.
  assert (Mx := mass_pos sigma l u x N Hlu). assert (Mx' := mass_pos sigma l u x' N Hlu). unfold density.
  assert (S2 : 0 < sigma ^ 2) by (apply pow2_gt_0; assumption). assert (SI := div_pos _ S2).
  assert (W : weight sigma x y * exp ((x - l) ^ 2 / (2 * sigma ^ 2)) <= weight sigma x' y * exp ((x' - l) ^ 2 / (2 * sigma ^ 2))).
  { unfold weight. rewrite <- !exp_plus. apply exp_le.
    replace (- (y - x) ^ 2 / (2 * sigma ^ 2) + (x - l) ^ 2 / (2 * sigma ^ 2))
      with (((y - l) * (2 * (x - l)) - (y - l) ^ 2) / 2 * / sigma ^ 2) by (field; assumption).
    replace (- (y - x') ^ 2 / (2 * sigma ^ 2) + (x' - l) ^ 2 / (2 * sigma ^ 2))
      with (((y - l) * (2 * (x' - l)) - (y - l) ^ 2) / 2 * / sigma ^ 2) by (field; assumption).
    apply Rmult_le_compat_r; nra. }
  unfold moment in H.
  set (X := exp ((x - l) ^ 2 / (2 * sigma ^ 2))) in *. set (X' := exp ((x' - l) ^ 2 / (2 * sigma ^ 2))) in *.
  assert (0 < X) by apply exp_pos. assert (0 < X') by apply exp_pos. assert (0 < exp eps) by apply exp_pos.
  assert (0 < weight sigma x y) by apply exp_pos. assert (0 < weight sigma x' y) by apply exp_pos.
  apply Rmult_le_reg_r with (mass sigma l u x * mass sigma l u x'); [nra|].
  replace (weight sigma x y / mass sigma l u x * (mass sigma l u x * mass sigma l u x'))
    with (weight sigma x y * mass sigma l u x') by (field; lra).
  replace (exp eps * (weight sigma x' y / mass sigma l u x') * (mass sigma l u x * mass sigma l u x'))
    with (exp eps * weight sigma x' y * mass sigma l u x) by (field; lra).
  apply Rmult_le_reg_r with (X * X'); [nra|].
  apply Rle_trans with (weight sigma x y * X * (exp eps * (X * mass sigma l u x))).
  - replace (weight sigma x y * mass sigma l u x' * (X * X')) with (weight sigma x y * X * (X' * mass sigma l u x')) by ring.
    apply Rmult_le_compat_l; nra.
  - replace (exp eps * weight sigma x' y * mass sigma l u x * (X * X')) with (weight sigma x' y * X' * (exp eps * (X * mass sigma l u x))) by ring.
    apply Rmult_le_compat_r; [|assumption]. repeat apply Rmult_le_pos; lra.
Qed.

Section Theorem_.
Variables (sigma l u first last s eps : R).
Hypothesis Hsigma : 0 < sigma.
Hypothesis Hlu : l < u.
Hypothesis Hs : 0 < s <= last - first.
Hypothesis upward : moment sigma l u last <= exp eps * moment sigma l u (last - s).
Hypothesis downward : moment sigma (- u) (- l) (- first) <= exp eps * moment sigma (- u) (- l) (- (first + s)).

(** Neighbouring answers have densities within a factor of exp(eps), at every output. *)
Theorem truncated_gaussian : forall x x' y, first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s -> l <= y <= u ->
  density sigma l u x y <= exp eps * density sigma l u x' y.
Proof.
  intros x x' y Hx Hx' Hd Hy. assert (N : sigma <> 0) by lra.
  destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in Hd by lra. apply density_near; try lra. apply (moments_near sigma s eps l u last); lra.
  - rewrite Rabs_right in Hd by lra.
    assert (H : density sigma (- u) (- l) (- x) (- y) <= exp eps * density sigma (- u) (- l) (- x') (- y)).
    { apply density_near; try lra. apply (moments_near sigma s eps (- u) (- l) (- first)); try lra.
      replace (- first - s) with (- (first + s)) by ring. assumption. }
    unfold density in *. rewrite !mirrored in H by assumption. unfold weight in *.
    replace ((- y - - x) ^ 2) with ((y - x) ^ 2) in H by ring. replace ((- y - - x') ^ 2) with ((y - x') ^ 2) in H by ring.
    assumption.
Qed.
End Theorem_.

(** With less noise, the pair at an end of the range is refuted by the output at the other end of the support. *)
Lemma refuted_upward : forall sigma l u x s eps, 0 < sigma -> l < u ->
  exp eps * moment sigma l u (x - s) < moment sigma l u x ->
  exp eps * density sigma l u x l < density sigma l u (x - s) l.
Proof.
  intros sigma l u x s eps Hs Hlu H. assert (N : sigma <> 0) by lra. unfold density, moment in *.
  assert (M := mass_pos sigma l u x N Hlu). assert (M' := mass_pos sigma l u (x - s) N Hlu).
  assert (W : forall x, weight sigma x l = / exp ((x - l) ^ 2 / (2 * sigma ^ 2))).
  { intro z. unfold weight. rewrite <- exp_Ropp. f_equal. field. assumption. }
  rewrite !W. set (X := exp ((x - l) ^ 2 / (2 * sigma ^ 2))) in *. set (X' := exp ((x - s - l) ^ 2 / (2 * sigma ^ 2))) in *.
  assert (0 < X) by apply exp_pos. assert (0 < X') by apply exp_pos.
  apply Rmult_lt_reg_r with (X * X' * mass sigma l u x * mass sigma l u (x - s)); [repeat apply Rmult_lt_0_compat; lra|].
  replace (exp eps * (/ X / mass sigma l u x) * (X * X' * mass sigma l u x * mass sigma l u (x - s)))
    with (exp eps * (X' * mass sigma l u (x - s))) by (field; lra).
  replace (/ X' / mass sigma l u (x - s) * (X * X' * mass sigma l u x * mass sigma l u (x - s)))
    with (X * mass sigma l u x) by (field; lra). assumption.
Qed.

Lemma refuted_downward : forall sigma l u x s eps, 0 < sigma -> l < u ->
  exp eps * moment sigma (- u) (- l) (- (x + s)) < moment sigma (- u) (- l) (- x) ->
  exp eps * density sigma l u x u < density sigma l u (x + s) u.
Proof.
  intros sigma l u x s eps Hs Hlu H. assert (N : sigma <> 0) by lra.
  assert (K := refuted_upward sigma (- u) (- l) (- x) s eps Hs ltac:(lra)).
  replace (- x - s) with (- (x + s)) in K by ring. specialize (K H).
  unfold density in *. rewrite !mirrored in K by assumption. unfold weight in *.
  replace ((- u - - x) ^ 2) with ((u - x) ^ 2) in K by ring.
  replace ((- u - - (x + s)) ^ 2) with ((u - (x + s)) ^ 2) in K by ring. assumption.
Qed.

(** What is computed: the mass by the integral of the bell, and two moments by the ratio of their factors. *)
Definition part (sigma l u x : R) : R := RInt bell 0 ((u - x) / sigma) - RInt bell 0 ((l - x) / sigma).
Definition tilt (sigma l eps x x' : R) : R := exp (((x - l) ^ 2 - (x' - l) ^ 2) / (2 * sigma ^ 2) - eps).

Lemma mass_is_part : forall sigma l u x, 0 < sigma -> mass sigma l u x = sigma * part sigma l u x.
Proof.
  intros sigma l u x Hs. unfold mass, part.
  assert (J : is_RInt bell (/ sigma * l + - x / sigma) (/ sigma * u + - x / sigma)
    (RInt bell (/ sigma * l + - x / sigma) (/ sigma * u + - x / sigma)))
    by (apply (RInt_correct (V := R_CompleteNormedModule)), Bell.integrable).
  apply (is_RInt_comp_lin (V := R_NormedModule)) in J. apply (is_RInt_scal (V := R_NormedModule) _ _ _ sigma) in J.
  apply (is_RInt_unique (V := R_CompleteNormedModule)). replace (/ sigma * l + - x / sigma) with ((l - x) / sigma) in J by (field; lra).
  replace (/ sigma * u + - x / sigma) with ((u - x) / sigma) in J by (field; lra).
  assert (C := chasles 0 ((l - x) / sigma) ((u - x) / sigma)). set (area := RInt bell ((l - x) / sigma) ((u - x) / sigma)) in *.
  replace (RInt bell 0 ((u - x) / sigma) - RInt bell 0 ((l - x) / sigma)) with area by (simpl in *; lra).
  revert J. apply is_RInt_ext. intros y _. unfold scal; simpl; unfold mult; simpl. unfold weight, bell.
  rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. f_equal. field. lra.
Qed.

Lemma tilted_moments : forall sigma l u eps x x', 0 < sigma ->
  exp eps * moment sigma l u x' - moment sigma l u x
  = exp eps * exp ((x' - l) ^ 2 / (2 * sigma ^ 2)) * sigma * (part sigma l u x' - tilt sigma l eps x x' * part sigma l u x).
Proof.
  intros sigma l u eps x x' Hs. unfold moment. rewrite !mass_is_part by assumption.
  replace (exp ((x - l) ^ 2 / (2 * sigma ^ 2))) with (exp eps * exp ((x' - l) ^ 2 / (2 * sigma ^ 2)) * tilt sigma l eps x x'); [ring|].
  unfold tilt. rewrite <- !exp_plus. f_equal. field. lra.
Qed.

Lemma moments_at_most : forall sigma l u eps x x', 0 < sigma ->
  tilt sigma l eps x x' * part sigma l u x <= part sigma l u x' -> moment sigma l u x <= exp eps * moment sigma l u x'.
Proof.
  intros sigma l u eps x x' Hs H. apply Rminus_le, Ropp_le_cancel. rewrite Ropp_0.
  replace (- (moment sigma l u x - exp eps * moment sigma l u x')) with (exp eps * moment sigma l u x' - moment sigma l u x) by ring.
  rewrite tilted_moments by assumption. repeat apply Rmult_le_pos; try (left; apply exp_pos); lra.
Qed.

Lemma moments_above : forall sigma l u eps x x', 0 < sigma ->
  part sigma l u x' < tilt sigma l eps x x' * part sigma l u x -> exp eps * moment sigma l u x' < moment sigma l u x.
Proof.
  intros sigma l u eps x x' Hs H. apply Rminus_lt. rewrite tilted_moments by assumption.
  assert (0 < exp eps * exp ((x' - l) ^ 2 / (2 * sigma ^ 2)) * sigma) by (repeat apply Rmult_lt_0_compat; try apply exp_pos; lra). nra.
Qed.

Lemma translated : forall sigma l u x d, 0 < sigma -> moment sigma (l + d) (u + d) (x + d) = moment sigma l u x.
Proof.
  intros. unfold moment. rewrite !mass_is_part by assumption. unfold part.
  replace (x + d - (l + d)) with (x - l) by ring. replace (u + d - (x + d)) with (u - x) by ring.
  replace (l + d - (x + d)) with (l - x) by ring. reflexivity.
Qed.

(** Where the range is in the middle of the support, one direction is the other. *)
Lemma in_the_middle : forall sigma l u first last s eps, 0 < sigma -> first - l = u - last ->
  moment sigma l u last <= exp eps * moment sigma l u (last - s) ->
  moment sigma (- u) (- l) (- first) <= exp eps * moment sigma (- u) (- l) (- (first + s)).
Proof.
  intros sigma l u first last s eps Hs E H. set (d := - (l + u)).
  replace (- u) with (l + d) by (unfold d; ring). replace (- l) with (u + d) by (unfold d; ring).
  replace (- first) with (last + d) by (unfold d; lra). replace (- (first + s)) with (last - s + d) by (unfold d; lra).
  now rewrite !translated.
Qed.
