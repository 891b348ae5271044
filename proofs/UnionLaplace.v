(** Laplace noise truncated to several intervals: what one pair of answers loses, pairs inside of it lose no more. *)
From Coq Require Import Reals Lra Psatz List.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy HockeyStick UnboundedLaplace.
Import ListNotations.
Open Scope R_scope.

(** The probability that x plus noise lies in one of the spans, and the density of the truncated output. *)
Fixpoint mass (b : R) (spans : list (R * R)) (x : R) : R :=
  match spans with [] => 0 | (l, u) :: rest => at_most b (u - x) - at_most b (l - x) + mass b rest x end.
Definition truncated (b : R) (spans : list (R * R)) (x y : R) : R := exp (- Rabs (y - x) / b) / (2 * b * mass b spans x).
Fixpoint proper (spans : list (R * R)) : Prop := match spans with [] => True | (l, u) :: rest => l < u /\ proper rest end.

Lemma span_moves : forall b l u x x', 0 < b -> l < u ->
  at_most b (u - x) - at_most b (l - x) <= exp (Rabs (x - x') / b) * (at_most b (u - x') - at_most b (l - x')).
Proof.
  intros b l u x x' Hb Hlu. assert (I := at_most_is_integral b x l u Hb ltac:(lra)). assert (J := at_most_is_integral b x' l u Hb ltac:(lra)).
  apply (is_RInt_scal (V := R_NormedModule) _ _ _ (exp (Rabs (x - x') / b))) in J.
  apply (is_RInt_le (density b x) (fun y => scal (exp (Rabs (x - x') / b)) (density b x' y)) l u); [lra | exact I | exact J |].
  intros y _. apply (unbounded_laplace b (Rabs (x - x')) (Rabs (x - x') / b)); [assumption | right; field; lra | right; reflexivity].
Qed.

Lemma span_pos : forall b l u x, 0 < b -> l < u -> 0 < at_most b (u - x) - at_most b (l - x).
Proof.
  intros b l u x Hb Hlu. assert (I := at_most_is_integral b x l u Hb ltac:(lra)). apply (is_RInt_unique (V := R_CompleteNormedModule)) in I.
  apply Rlt_le_trans with (2 := Req_le _ _ I). apply RInt_gt_0; [assumption | | intros; now apply continuous_density].
  intros y _. unfold density. apply Rdiv_lt_0_compat; [apply exp_pos | lra].
Qed.

Lemma mass_moves : forall b spans x x', 0 < b -> proper spans -> mass b spans x <= exp (Rabs (x - x') / b) * mass b spans x'.
Proof.
  induction spans as [|[l u] rest IH]; intros x x' Hb H; simpl; [lra|]. destruct H as [Hlu Hr].
  assert (A := span_moves b l u x x' Hb Hlu). assert (B := IH x x' Hb Hr). lra.
Qed.

Lemma mass_pos : forall b spans x, 0 < b -> proper spans -> spans <> [] -> 0 < mass b spans x.
Proof.
  induction spans as [|[l u] rest IH]; intros x Hb H N; [now elim N|]. destruct H as [Hlu Hr]. simpl.
  assert (A := span_pos b l u x Hb Hlu). destruct rest as [|each rest]; [simpl; lra|].
  assert (B := IH x Hb Hr ltac:(discriminate)). lra.
Qed.

Section Theorem_.
Variables (b : R) (spans : list (R * R)) (first last s eps : R).
Hypothesis Hb : 0 < b.
Hypothesis Hspans : proper spans.
Hypothesis Hsome : spans <> [].
Hypothesis Hs : 0 < s <= last - first.
Hypothesis upward : forall a, first <= a <= last - s -> exp (s / b) * mass b spans (a + s) <= exp eps * mass b spans a.
Hypothesis downward : forall a, first <= a <= last - s -> exp (s / b) * mass b spans a <= exp eps * mass b spans (a + s).

(** A pair p, q that is s apart loses no less than a pair x, x' between them. *)
Lemma inside : forall p q x x', exp (s / b) * mass b spans q <= exp eps * mass b spans p ->
  Rabs (x - x') + Rabs (x' - q) + Rabs (p - x) <= s -> exp (Rabs (x - x') / b) * mass b spans x' <= exp eps * mass b spans x.
Proof.
  intros p q x x' H D. assert (Hi := div_pos b Hb). assert (Q := mass_moves b spans x' q Hb Hspans).
  assert (P := mass_moves b spans p x Hb Hspans). assert (Mq := mass_pos b spans q Hb Hspans Hsome).
  set (u := Rabs (x - x') / b). set (v := Rabs (x' - q) / b) in *. set (w := Rabs (p - x) / b) in *.
  assert (K : exp u * exp v * exp w <= exp (s / b)).
  { rewrite <- !exp_plus. apply exp_le. unfold u, v, w, Rdiv. nra. }
  assert (U : 0 < exp u) by apply exp_pos. assert (V : 0 < exp v) by apply exp_pos. assert (W : 0 < exp w) by apply exp_pos.
  assert (E : 0 < exp eps) by apply exp_pos. apply Rmult_le_reg_r with (exp w); [assumption|].
  apply Rle_trans with (exp u * exp v * exp w * mass b spans q).
  - replace (exp u * mass b spans x' * exp w) with (exp u * exp w * mass b spans x') by ring.
    replace (exp u * exp v * exp w * mass b spans q) with (exp u * exp w * (exp v * mass b spans q)) by ring.
    apply Rmult_le_compat_l; [nra | assumption].
  - apply Rle_trans with (exp (s / b) * mass b spans q); [apply Rmult_le_compat_r; lra|]. apply Rle_trans with (1 := H).
    replace (exp eps * mass b spans x * exp w) with (exp eps * (exp w * mass b spans x)) by ring. apply Rmult_le_compat_l; lra.
Qed.

Lemma worst_pair : forall x x', first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  exp (Rabs (x - x') / b) * mass b spans x' <= exp eps * mass b spans x.
Proof.
  intros x x' Hx Hx' Hd. destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in Hd by lra. destruct (Rle_dec x (last - s)) as [M|M].
    + apply inside with (p := x) (q := x + s); [apply upward; lra|]. rewrite !Rabs_left1 by lra. lra.
    + apply inside with (p := last - s) (q := last - s + s); [apply upward; lra|]. rewrite !Rabs_left1 by lra. lra.
  - rewrite Rabs_right in Hd by lra. destruct (Rle_dec (first + s) x) as [M|M].
    + apply inside with (p := x - s + s) (q := x - s); [apply downward; lra|]. rewrite !Rabs_right by lra. lra.
    + apply inside with (p := first + s) (q := first); [apply downward; lra|]. rewrite !Rabs_right by lra. lra.
Qed.

(** Neighbouring answers have densities within a factor of exp(eps), at every output. *)
Theorem union_laplace : forall x x' y, first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  truncated b spans x y <= exp eps * truncated b spans x' y.
Proof.
  intros x x' y Hx Hx' Hd. unfold truncated. assert (Hi := div_pos b Hb). assert (Q := worst_pair x x' Hx Hx' Hd).
  assert (Mx := mass_pos b spans x Hb Hspans Hsome). assert (Mx' := mass_pos b spans x' Hb Hspans Hsome).
  assert (T : exp (- Rabs (y - x) / b) <= exp (Rabs (x - x') / b) * exp (- Rabs (y - x') / b)).
  { rewrite <- exp_plus. apply exp_le. unfold Rdiv. assert (Rabs (y - x') <= Rabs (y - x) + Rabs (x - x')).
    { replace (y - x') with ((y - x) + (x - x')) by ring. apply Rabs_triang. } nra. }
  set (w := exp (- Rabs (y - x') / b)) in *. assert (Hw : 0 < w) by apply exp_pos.
  set (m := mass b spans x) in *. set (m' := mass b spans x') in *. set (v := exp (- Rabs (y - x) / b)) in *.
  set (k := exp (Rabs (x - x') / b)) in *. apply Rmult_le_reg_r with (2 * b * m * m'); [apply Rmult_lt_0_compat; nra|].
  replace (v / (2 * b * m) * (2 * b * m * m')) with (v * m') by (field; lra).
  replace (exp eps * (w / (2 * b * m')) * (2 * b * m * m')) with (exp eps * w * m) by (field; lra).
  apply Rle_trans with (k * w * m'); [apply Rmult_le_compat_r; lra|].
  replace (k * w * m') with (w * (k * m')) by ring. replace (exp eps * w * m) with (w * (exp eps * m)) by ring.
  apply Rmult_le_compat_l; lra.
Qed.
End Theorem_.

(** With less noise, a pair is refuted by an output that is beyond the one as seen from the other. *)
Lemma refuted : forall b spans x x' y eps, 0 < b -> proper spans -> spans <> [] ->
  y <= x <= x' \/ x' <= x <= y -> exp eps * mass b spans x < exp (Rabs (x - x') / b) * mass b spans x' ->
  exp eps * truncated b spans x' y < truncated b spans x y.
Proof.
  intros b spans x x' y eps Hb Hp Hn Hy H. unfold truncated.
  assert (M := mass_pos b spans x Hb Hp Hn). assert (M' := mass_pos b spans x' Hb Hp Hn).
  assert (E : exp (- Rabs (y - x) / b) = exp (Rabs (x - x') / b) * exp (- Rabs (y - x') / b)).
  { rewrite <- exp_plus. f_equal. unfold Rdiv. rewrite <- Rmult_plus_distr_r. f_equal. unfold Rabs. repeat destruct (Rcase_abs _); lra. }
  rewrite E. set (w := exp (- Rabs (y - x') / b)) in *. assert (Hw : 0 < w) by apply exp_pos. set (k := exp (Rabs (x - x') / b)) in *.
  set (m := mass b spans x) in *. set (m' := mass b spans x') in *.
  apply Rmult_lt_reg_r with (2 * b * m * m'); [apply Rmult_lt_0_compat; nra|].
  replace (exp eps * (w / (2 * b * m')) * (2 * b * m * m')) with (w * (exp eps * m)) by (field; lra).
  replace (k * w / (2 * b * m) * (2 * b * m * m')) with (w * (k * m')) by (field; lra). now apply Rmult_lt_compat_l.
Qed.
