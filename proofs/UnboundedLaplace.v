(** Laplace noise on the whole line, and what is made of it: clamped to an interval, rounded to a grid. *)
From Coq Require Import Reals Lra Psatz.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy.
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

(** With less noise than that, two answers a sensitivity apart are refuted by the output at one of them. *)
Theorem refuted : forall b s eps, 0 < b -> 0 < s -> b * eps < s -> exp eps * density b s 0 < density b 0 0.
Proof.
  intros b s eps Hb Hs H. unfold density. assert (Hi := div_pos b Hb).
  rewrite Rabs_left1, (Rabs_right (0 - 0)) by lra.
  replace (- (0 - 0) / b) with 0 by (unfold Rdiv; ring). rewrite exp_0.
  unfold Rdiv at 1 2. rewrite <- Rmult_assoc, <- exp_plus.
  apply Rmult_lt_compat_r; [apply Rinv_0_lt_compat; lra|]. rewrite <- exp_0. apply exp_increasing.
  replace (eps + - - (0 - s) * / b) with ((b * eps - s) * / b) by (field; lra). nra.
Qed.

(** The atoms of clamped and rounded noise refute it as well: below both answers its law is that of the noise. *)
Theorem atom_refuted : forall b s eps l, 0 < b -> 0 < s -> b * eps < s ->
  exp eps * at_most b (l - (l + s)) < at_most b (l - l).
Proof.
  intros b s eps l Hb Hs H. assert (Hi := div_pos b Hb). unfold at_most.
  destruct (Rle_dec (l - (l + s)) 0) as [L|L]; [|exfalso; lra]. destruct (Rle_dec (l - l) 0) as [M|M]; [|exfalso; lra].
  replace ((l - l) / b) with 0 by (unfold Rdiv; ring). rewrite exp_0.
  unfold Rdiv at 1. rewrite <- Rmult_assoc, <- exp_plus. unfold Rdiv at 2.
  apply Rmult_lt_compat_r; [lra|]. rewrite <- exp_0. apply exp_increasing.
  replace (eps + (l - (l + s)) / b) with ((b * eps - s) * / b) by (field; lra). nra.
Qed.
