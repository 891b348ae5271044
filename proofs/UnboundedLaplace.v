(** Laplace noise on the whole line, and what is made of it: clamped to an interval, rounded to a grid. *)
From Coq Require Import Reals Lra Psatz.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy HockeyStick.
Open Scope R_scope.

Definition density (b x y : R) : R := exp (- Rabs (y - x) / b) / (2 * b).

(** The probability that the noise is at most z; that it is at least z is [at_most b (- z)]. *)
Definition at_most (b z : R) : R := if Rle_dec z 0 then exp (z / b) / 2 else 1 - exp (- z / b) / 2.

Section Theorem_.
Variables (b s eps : R).
Hypothesis Hb : 0 < b.
Hypothesis Hs : s <= b * eps.

Lemma loss : forall d, d <= s -> exp (d / b) <= exp eps.
Proof.
  intros d Hd. apply exp_le. assert (Hi := div_pos b Hb).
  replace eps with (b * eps * / b) by (field; lra). unfold Rdiv. apply Rmult_le_compat_r; lra.
Qed.

(** Neighbouring answers have densities within a factor of exp(eps), at every noisy value. *)
Theorem unbounded_laplace : forall x x' y, Rabs (x - x') <= s -> density b x y <= exp eps * density b x' y.
Proof.
  intros x x' y Hd. unfold density. assert (Hi := div_pos b Hb).
  assert (T : exp (- Rabs (y - x) / b) <= exp (Rabs (x - x') / b) * exp (- Rabs (y - x') / b)).
  { rewrite <- exp_plus. apply exp_le. unfold Rdiv.
    assert (Rabs (y - x') <= Rabs (y - x) + Rabs (x - x')).
    { replace (y - x') with ((y - x) + (x - x')) by ring. apply Rabs_triang. } nra. }
  assert (L := loss _ Hd). assert (0 < exp (- Rabs (y - x') / b)) by apply exp_pos.
  assert (exp (- Rabs (y - x) / b) <= exp eps * exp (- Rabs (y - x') / b)) by nra.
  unfold Rdiv at 1 3. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra | assumption].
Qed.

Lemma at_most_rises : forall z d, 0 <= d -> at_most b z <= at_most b (z + d).
Proof.
  intros z d Hd. assert (Hi := div_pos b Hb). unfold at_most.
  destruct (Rle_dec z 0); destruct (Rle_dec (z + d) 0); try lra.
  - assert (exp (z / b) <= exp ((z + d) / b)) by (apply exp_le; unfold Rdiv; nra). lra.
  - assert (exp (z / b) <= 1) by (apply exp_le_1; unfold Rdiv; nra).
    assert (exp (- (z + d) / b) <= 1) by (apply exp_le_1; unfold Rdiv; nra). lra.
  - assert (exp (- (z + d) / b) <= exp (- z / b)) by (apply exp_le; unfold Rdiv; nra). lra.
Qed.

Lemma at_most_grows : forall z d, 0 <= d -> at_most b (z + d) <= exp (d / b) * at_most b z.
Proof.
  intros z d Hd. assert (Hi := div_pos b Hb). unfold at_most.
  assert (K : 1 <= exp (d / b)) by (apply exp_ge_1; unfold Rdiv; nra).
  destruct (Rle_dec z 0); destruct (Rle_dec (z + d) 0); try lra.
  - right. replace ((z + d) / b) with (d / b + z / b) by (unfold Rdiv; ring). rewrite exp_plus. field.
  - replace (exp (d / b) * (exp (z / b) / 2)) with (exp ((z + d) / b) / 2)
      by (replace ((z + d) / b) with (d / b + z / b) by (unfold Rdiv; ring); rewrite exp_plus; field).
    replace (- (z + d) / b) with (- ((z + d) / b)) by (unfold Rdiv; ring). rewrite exp_Ropp.
    assert (0 < exp ((z + d) / b)) by apply exp_pos. set (w := exp ((z + d) / b)) in *.
    assert (w * / w = 1) by (apply Rinv_r; lra). assert (0 < / w) by now apply Rinv_0_lt_compat.
    assert (0 <= (w - 1) * (w - 1) * / w) by (apply Rmult_le_pos; [exact (Rle_0_sqr (w - 1)) | lra]).
    assert ((w - 1) * (w - 1) * / w = w - 2 + / w) by (field; lra). lra.
  - replace (- (z + d) / b) with (- (d / b) + - z / b) by (unfold Rdiv; ring). rewrite exp_plus, exp_Ropp.
    set (k := exp (d / b)) in *. set (v := exp (- z / b)).
    assert (0 < v <= 1) by (split; [apply exp_pos | apply exp_le_1; unfold Rdiv; nra]).
    assert (k * / k = 1) by (apply Rinv_r; lra). assert (0 < / k) by (apply Rinv_0_lt_compat; lra).
    assert (E : k * (1 - v / 2) - (1 - / k * v / 2) = (k - 1) * (2 * k - v * (k + 1)) * / k / 2) by (field; lra).
    assert (0 <= (k - 1) * (2 * k - v * (k + 1)) * / k / 2).
    { assert (v * (k + 1) <= 1 * (k + 1)) by (apply Rmult_le_compat_r; lra).
      assert (0 <= (k - 1) * (2 * k - v * (k + 1))) by (apply Rmult_le_pos; lra). assert (0 <= (k - 1) * (2 * k - v * (k + 1)) * / k)
        by (apply Rmult_le_pos; lra). lra. }
    lra.
Qed.

Lemma at_most_pos : forall z, 0 <= at_most b z.
Proof.
  intros. unfold at_most. assert (Hi := div_pos b Hb). destruct (Rle_dec z 0).
  - assert (0 < exp (z / b)) by apply exp_pos. lra.
  - assert (exp (- z / b) <= 1) by (apply exp_le_1; unfold Rdiv; nra). lra.
Qed.

(** Clamping to [l, u]: the atom on the lower end is everything at most l, that on the upper end everything at least u;
    inside, the density is that of the noise. *)
Theorem atom_below : forall l x x', Rabs (x - x') <= s -> at_most b (l - x) <= exp eps * at_most b (l - x').
Proof.
  intros l x x' Hd. assert (P := at_most_pos (l - x')). assert (L := loss _ Hd).
  destruct (Rle_dec x x') as [C|C].
  - rewrite Rabs_left1 in * by lra. assert (G := at_most_grows (l - x') (x' - x) ltac:(lra)).
    replace (l - x' + (x' - x)) with (l - x) in G by ring. replace (- (x - x')) with (x' - x) in L by ring. nra.
  - assert (G := at_most_rises (l - x) (x - x') ltac:(lra)). replace (l - x + (x - x')) with (l - x') in G by ring.
    assert (1 <= exp eps).
    { apply Rle_trans with (exp (Rabs (x - x') / b)); [|assumption]. apply exp_ge_1. assert (Hi := div_pos b Hb).
      assert (0 <= Rabs (x - x')) by apply Rabs_pos. unfold Rdiv. nra. } nra.
Qed.

Theorem atom_above : forall u x x', Rabs (x - x') <= s -> at_most b (x - u) <= exp eps * at_most b (x' - u).
Proof.
  intros u x x' Hd. assert (H := atom_below (- u) (- x) (- x')).
  replace (- u - - x) with (x - u) in H by ring. replace (- u - - x') with (x' - u) in H by ring. apply H.
  replace (- x - - x') with (- (x - x')) by ring. now rewrite Rabs_Ropp.
Qed.

Lemma continuous_density : forall x y, continuous (density b x) y.
Proof.
  intros. apply continuity_pt_filterlim. unfold density.
  apply (continuity_pt_mult (fun y => exp (- Rabs (y - x) / b)) (fun _ => / (2 * b))).
  - apply (continuity_pt_comp (fun y => - Rabs (y - x) / b) exp).
    + apply (continuity_pt_mult (fun y => - Rabs (y - x)) (fun _ => / b)).
      * apply (continuity_pt_opp (fun y => Rabs (y - x))). apply (continuity_pt_comp (fun y => y - x) Rabs).
        -- apply derivable_continuous_pt. reg.
        -- apply Rcontinuity_abs.
      * apply continuity_pt_const. now intros ? ?.
    + apply derivable_continuous_pt, derivable_pt_exp.
  - apply continuity_pt_const. now intros ? ?.
Qed.

(** Rounding: a point of the grid has the probability of its cell; the first and the last have the tails as well, which
    are the atoms above. *)
Theorem rounded_cell : forall c d x x', c <= d -> Rabs (x - x') <= s ->
  RInt (density b x) c d <= exp eps * RInt (density b x') c d.
Proof.
  intros c d x x' Hcd Hd.
  assert (I : forall x, ex_RInt (density b x) c d).
  { intro. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros. apply continuous_density. }
  replace (exp eps * RInt (density b x') c d) with (RInt (fun y => exp eps * density b x' y) c d)
    by exact (RInt_scal (V := R_CompleteNormedModule) _ c d _ (I x')).
  apply RInt_le; [assumption | apply I | exact (ex_RInt_scal (V := R_NormedModule) _ c d _ (I x')) |].
  intros. now apply unbounded_laplace.
Qed.
End Theorem_.

Lemma at_most_below : forall b z, z <= 0 -> at_most b z = exp (z / b) / 2.
Proof. intros b z Hz. unfold at_most. destruct (Rle_dec z 0); [reflexivity | contradiction]. Qed.

Lemma at_most_above : forall b z, 0 < b -> 0 <= z -> at_most b z = 1 - exp (- z / b) / 2.
Proof.
  intros b z Hb Hz. unfold at_most. destruct (Rle_dec z 0); [|reflexivity]. replace z with 0 by lra.
  replace (0 / b) with 0 by (field; lra). replace (- 0 / b) with 0 by (field; lra). rewrite exp_0. lra.
Qed.

(** [at_most] is the integral of the density, from minus infinity since it vanishes there. *)
Lemma at_most_is_integral : forall b x c d, 0 < b -> c <= d ->
  is_RInt (density b x) c d (at_most b (d - x) - at_most b (c - x)).
Proof.
  intros b x c d Hb Hcd.
  assert (L : forall c d, c <= d <= x -> is_RInt (density b x) c d (at_most b (d - x) - at_most b (c - x))).
  { clear c d Hcd. intros c d H. rewrite !at_most_below by lra.
    apply (is_RInt_ext (fun y => exp ((y - x) / b) / (2 * b))).
    - intros y Hy. rewrite Rmin_left, Rmax_right in Hy by lra. unfold density. rewrite Rabs_left1 by lra.
      now rewrite Ropp_involutive.
    - apply (is_RInt_derive (V := R_CompleteNormedModule) (fun y => exp ((y - x) / b) / 2)).
      + intros. auto_derive; [trivial | unfold Rdiv, Rminus; field; lra].
      + intros. apply continuity_pt_filterlim, derivable_continuous_pt. unfold Rdiv. reg. }
  assert (R : forall c d, x <= c <= d -> is_RInt (density b x) c d (at_most b (d - x) - at_most b (c - x))).
  { clear c d Hcd L. intros c d H. rewrite !at_most_above by lra.
    apply (is_RInt_ext (fun y => exp (- (y - x) / b) / (2 * b))).
    - intros y Hy. rewrite Rmin_left, Rmax_right in Hy by lra. unfold density. now rewrite Rabs_right by lra.
    - replace (1 - exp (- (d - x) / b) / 2 - (1 - exp (- (c - x) / b) / 2))
        with (- exp (- (d - x) / b) / 2 - (- exp (- (c - x) / b) / 2)) by field.
      apply (is_RInt_derive (V := R_CompleteNormedModule) (fun y => - exp (- (y - x) / b) / 2)).
      + intros. auto_derive; [trivial | unfold Rdiv, Rminus; field; lra].
      + intros. apply continuity_pt_filterlim, derivable_continuous_pt. unfold Rdiv. reg. }
  destruct (Rle_dec d x); [apply L; lra|]. destruct (Rle_dec x c); [apply R; lra|].
  replace (at_most b (d - x) - at_most b (c - x))
    with (plus (at_most b (x - x) - at_most b (c - x)) (at_most b (d - x) - at_most b (x - x)))
    by (unfold plus; simpl; ring).
  apply (is_RInt_Chasles (V := R_NormedModule) _ c x d); [apply L; lra | apply R; lra].
Qed.

Section Delta.
Variables (b s eps delta : R).
Hypothesis Hb : 0 < b.
Hypothesis Heps : 0 <= eps.
Hypothesis Hdelta : 0 <= delta.
Hypothesis Hs : s <= b * eps \/ 1 - exp ((eps - s / b) / 2) <= delta.

Lemma upward : forall x x' c d f, x <= x' <= x + s -> c <= d -> test f ->
  ex_RInt (fun y => density b x y * f y) c d -> ex_RInt (fun y => density b x' y * f y) c d ->
  RInt (fun y => density b x y * f y) c d <= exp eps * RInt (fun y => density b x' y * f y) c d + delta.
Proof.
  intros x x' c d f Hx Hcd Hf P Q. assert (Hi := div_pos b Hb).
  destruct (Rle_dec (x' - x) (b * eps)) as [N|N].
  - enough (RInt (fun y => density b x y * f y) c d <= exp eps * RInt (fun y => density b x' y * f y) c d) by lra.
    apply events; try assumption; [left; apply exp_pos | | intros; apply Hf].
    intros y _. apply unbounded_laplace with (s := x' - x); try assumption. rewrite Rabs_left1; lra.
  - apply Rnot_le_lt in N. destruct Hs as [F|F]; [exfalso; lra|]. assert (Z : 0 <= b * eps) by (apply Rmult_le_pos; lra).
    set (m := (x + x' - b * eps) / 2).
    assert (Ratio : forall y, exp eps * density b x' y = exp (eps - Rabs (y - x') / b) / (2 * b)).
    { intro. unfold density. unfold Rdiv at 1 3. rewrite <- Rmult_assoc, <- exp_plus.
      replace (eps + - Rabs (y - x') / b) with (eps - Rabs (y - x') / b) by (unfold Rdiv; ring). reflexivity. }
    assert (Be : forall y, eps - Rabs (y - x') / b = (b * eps - Rabs (y - x')) * / b) by (intro; field; lra).
    assert (Bp : forall y, - Rabs (y - x) / b = - Rabs (y - x) * / b) by reflexivity.
    apply one_crossing with (m := m); try assumption.
    + intro; apply continuous_density; assumption.
    + intro; apply continuous_density; assumption.
    + intros y Hy. rewrite Ratio. unfold density. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|].
      apply exp_le. rewrite Be, Bp. apply Rmult_le_compat_r; [lra|]. unfold m in Hy. unfold Rabs.
      destruct (Rcase_abs (y - x')); destruct (Rcase_abs (y - x)); lra.
    + intros y Hy. rewrite Ratio. unfold density. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|].
      apply exp_le. rewrite Be, Bp. apply Rmult_le_compat_r; [lra|]. unfold m in Hy. unfold Rabs.
      destruct (Rcase_abs (y - x')); destruct (Rcase_abs (y - x)); lra.
    + intros e He _.
      assert (I : is_RInt (fun y => density b x y - exp eps * density b x' y) c e
        (at_most b (e - x) - at_most b (c - x) - exp eps * (at_most b (e - x') - at_most b (c - x')))).
      { apply (is_RInt_minus (V := R_NormedModule)); [apply at_most_is_integral; lra|].
        apply (is_RInt_scal (V := R_NormedModule)). apply at_most_is_integral; lra. }
      rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ I).
      assert (M0 : m <= x') by (unfold m; nra).
      rewrite (at_most_below b (e - x')), (at_most_below b (c - x')) by lra.
      assert (K : forall y, exp eps * (exp ((y - x') / b) / 2) = exp ((b * eps + y - x') * / b) / 2).
      { intro y. unfold Rdiv at 1 3. rewrite <- Rmult_assoc, <- exp_plus. f_equal. f_equal. field. lra. }
      rewrite Rmult_minus_distr_l, !K.
      assert (Low : 0 <= at_most b (c - x) - exp ((b * eps + c - x') * / b) / 2).
      { destruct (Rle_dec c x).
        - rewrite at_most_below by lra. assert (exp ((b * eps + c - x') * / b) <= exp ((c - x) / b))
            by (apply exp_le; unfold Rdiv; apply Rmult_le_compat_r; lra). lra.
        - rewrite at_most_above by lra.
          assert (exp ((b * eps + c - x') * / b) <= 1) by (apply exp_le_1; unfold m in *; nra).
          assert (exp (- (c - x) / b) <= 1) by (apply exp_le_1; unfold Rdiv; nra). lra. }
      assert (High : at_most b (e - x) - exp ((b * eps + e - x') * / b) / 2 <= 1 - exp ((b * eps - (x' - x)) * / b / 2)).
      { set (w := exp ((b * eps - (x' - x)) * / b / 2)).
        assert (W : w <= 1) by (apply exp_le_1; nra). assert (W0 : 0 < w) by apply exp_pos.
        destruct (Rle_dec e x).
        - rewrite at_most_below by lra.
          assert (E : exp ((b * eps + e - x') * / b) = exp ((e - x) / b) * (w * w)).
          { unfold w. rewrite <- !exp_plus. f_equal. field. lra. } rewrite E.
          assert (V : exp ((e - x) / b) <= 1) by (apply exp_le_1; unfold Rdiv; nra). assert (V0 := exp_pos ((e - x) / b)).
          set (v := exp ((e - x) / b)) in *. assert (v * (1 - w * w) <= 1 * (1 - w * w)) by (apply Rmult_le_compat_r; nra). nra.
        - rewrite at_most_above by lra. set (g := exp (- (e - x) / b)). set (h := exp ((b * eps + e - x') * / b)).
          assert (E : g * h = w * w) by (unfold g, h, w; rewrite <- !exp_plus; f_equal; field; lra).
          assert (0 < g) by apply exp_pos. assert (0 < h) by apply exp_pos.
          assert (0 <= (g - h) * (g - h)) by apply Rle_0_sqr. assert (2 * w <= g + h) by nra. lra. }
      assert (Last : exp ((eps - s / b) / 2) <= exp ((b * eps - (x' - x)) * / b / 2)).
      { apply exp_le. replace ((eps - s / b) / 2) with ((b * eps - s) * / b / 2) by (field; lra).
        assert ((b * eps - s) * / b <= (b * eps - (x' - x)) * / b) by (apply Rmult_le_compat_r; lra). lra. }
      lra.
Qed.

Lemma both_ways : forall x x' c d f, Rabs (x - x') <= s -> c <= d -> test f ->
  ex_RInt (fun y => density b x y * f y) c d -> ex_RInt (fun y => density b x' y * f y) c d ->
  RInt (fun y => density b x y * f y) c d <= exp eps * RInt (fun y => density b x' y * f y) c d + delta.
Proof.
  intros x x' c d f Hx Hcd Hf P Q. destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in Hx by lra. apply upward; try assumption; lra.
  - rewrite Rabs_right in Hx by lra.
    assert (E : forall z y, density b (- z) y * f (- y) = (fun y => density b z y * f y) (- y)).
    { intros. cbv beta. f_equal. unfold density. replace (y - - z) with (- (- y - z)) by ring. now rewrite Rabs_Ropp. }
    destruct (mirror _ _ c d (E x) P) as [P' EP]. destruct (mirror _ _ c d (E x') Q) as [Q' EQ].
    rewrite <- EP, <- EQ. apply upward; try assumption; try lra. intro y. apply Hf.
Qed.

(** Whatever is made of the noisy value, and whatever is then tested: clamped and rounded outputs are covered. *)
Theorem laplace_tests : forall x x' f P Q, Rabs (x - x') <= s -> test f ->
  rejects (density b x) f P -> rejects (density b x') f Q -> P <= exp eps * Q + delta.
Proof.
  intros x x' f P Q Hx Hf HP HQ. apply (on_the_line (density b x) (density b x') f); try assumption.
  - left. apply exp_pos.
  - intros. now apply both_ways.
Qed.
End Delta.
