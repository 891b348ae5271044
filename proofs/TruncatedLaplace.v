(** Laplace noise truncated to an interval or a half-line, for a range of true answers inside it. *)
From Coq Require Import Reals Lra Psatz.
From RB Require Import Privacy.
Open Scope R_scope.

(** An end of the support, or none: the probability that the noise passes it, twice. *)
Definition past (b : R) (away : option R) : R := match away with Some d => exp (- d / b) | None => 0 end.
Definition from_lower (l : option R) (x : R) : option R := match l with Some l => Some (x - l) | None => None end.
Definition to_upper (u : option R) (x : R) : option R := match u with Some u => Some (u - x) | None => None end.

(** The probability that x plus noise lies in the support, and the density of the truncated output. *)
Definition mass (b : R) (l u : option R) (x : R) : R := 1 - (past b (from_lower l x) + past b (to_upper u x)) / 2.
Definition density (b : R) (l u : option R) (x y : R) : R := exp (- Rabs (y - x) / b) / (2 * b * mass b l u x).

Definition above (l : option R) (x : R) : Prop := match l with Some l => l <= x | None => True end.
Definition below (u : option R) (x : R) : Prop := match u with Some u => x <= u | None => True end.
Definition apart (l u : option R) : Prop := match l, u with Some l, Some u => l < u | _, _ => True end.

Lemma past_bounds : forall b d, 0 < b -> match d with Some d => 0 <= d | None => True end -> 0 <= past b d <= 1.
Proof.
  intros b [d|] Hb Hd; simpl; [|lra]. split; [left; apply exp_pos | apply exp_le_1].
  assert (0 < / b) by now apply Rinv_0_lt_compat. unfold Rdiv. nra.
Qed.

Lemma lower_bounds : forall b l x, 0 < b -> above l x -> 0 <= past b (from_lower l x) <= 1.
Proof. intros. apply past_bounds; [assumption|]. destruct l; simpl in *; lra. Qed.

Lemma upper_bounds : forall b u x, 0 < b -> below u x -> 0 <= past b (to_upper u x) <= 1.
Proof. intros. apply past_bounds; [assumption|]. destruct u; simpl in *; lra. Qed.

Lemma mass_pos : forall b l u x, 0 < b -> apart l u -> above l x -> below u x -> 0 < mass b l u x.
Proof.
  intros b l u x Hb Ha Hl Hu. unfold mass.
  assert (L := lower_bounds b l x Hb Hl). assert (U := upper_bounds b u x Hb Hu).
  assert (Hi : 0 < / b) by now apply Rinv_0_lt_compat.
  destruct l as [l|]; destruct u as [u|]; simpl in *; try lra.
  destruct (Rlt_dec l x).
  - assert (exp (- (x - l) / b) < 1) by (rewrite <- exp_0; apply exp_increasing; unfold Rdiv; nra). lra.
  - assert (exp (- (u - x) / b) < 1) by (rewrite <- exp_0; apply exp_increasing; unfold Rdiv; nra). lra.
Qed.

(** With A and B twice the probabilities at the answer a, e = exp(-d/b) and v = exp(-(x-a)/b): the mass is
    log-concave in the answer. *)
Lemma log_concave_core : forall A B e v, 0 <= A <= 1 -> 0 <= B -> 0 < e <= 1 -> 0 < v <= 1 -> B <= v * e ->
  (2 - (A * (v * e) + B / (v * e))) * (2 - (A + B)) <= (2 - (A * e + B / e)) * (2 - (A * v + B / v)).
Proof.
  intros A B e v [HA0 HA1] HB [He0 He1] [Hv0 Hv1] HBve.
  assert (Hve : 0 < v * e) by nra.
  assert (E : (2 - (A * e + B / e)) * (2 - (A * v + B / v)) - (2 - (A * (v * e) + B / (v * e))) * (2 - (A + B))
    = (1 - v) * (1 - e) * ((2 * A * (v * e) + 2 * B - A * B * (1 + e) * (1 + v)) / (v * e))).
  { field. split; lra. }
  assert (G : 0 <= (2 * A * (v * e) + 2 * B - A * B * (1 + e) * (1 + v)) / (v * e)).
  { apply Rmult_le_pos; [|left; now apply Rinv_0_lt_compat].
    assert (HAB : 0 <= A * B) by nra.
    assert ((1 + e) * (1 + v) <= 2 + 2 * (v * e)) by nra.
    assert (A * B * ((1 + e) * (1 + v)) <= A * B * (2 + 2 * (v * e))) by now apply Rmult_le_compat_l.
    assert (A * B <= B) by nra. assert (B <= 1) by nra.
    assert (0 <= A * (v * e)) by (apply Rmult_le_pos; lra).
    assert (B * (A * (v * e)) <= 1 * (A * (v * e))) by (apply Rmult_le_compat_r; lra).
    assert (A * B * (2 + 2 * (v * e)) = 2 * (A * B) + 2 * (B * (A * (v * e)))) by ring.
    assert (A * B * (1 + e) * (1 + v) = A * B * ((1 + e) * (1 + v))) by ring. lra. }
  assert (0 <= (1 - v) * (1 - e)) by nra.
  assert (0 <= (1 - v) * (1 - e) * ((2 * A * (v * e) + 2 * B - A * B * (1 + e) * (1 + v)) / (v * e)))
    by (apply Rmult_le_pos; assumption). lra.
Qed.

Lemma shifted_lower : forall b l a d, 0 < b -> past b (from_lower l (a + d)) = past b (from_lower l a) * exp (- d / b).
Proof.
  intros b [l|] a d Hb; simpl; [|ring]. rewrite <- exp_plus. f_equal. unfold Rdiv. ring.
Qed.

Lemma shifted_upper : forall b u a d, 0 < b -> past b (to_upper u (a + d)) = past b (to_upper u a) / exp (- d / b).
Proof.
  intros b [u|] a d Hb; simpl; [|unfold Rdiv; ring]. unfold Rdiv at 2. rewrite <- exp_Ropp, <- exp_plus. f_equal.
  unfold Rdiv. ring.
Qed.

Lemma log_concave : forall b l u a x d, 0 < b -> a <= x -> 0 <= d -> above l a -> below u (x + d) ->
  mass b l u (x + d) * mass b l u a <= mass b l u (a + d) * mass b l u x.
Proof.
  intros b l u a x d Hb Hax Hd Hl Hu. assert (Hi : 0 < / b) by now apply Rinv_0_lt_compat. unfold mass.
  set (A := past b (from_lower l a)). set (B := past b (to_upper u a)).
  set (e := exp (- d / b)). set (v := exp (- (x - a) / b)).
  assert (HA : 0 <= A <= 1) by now apply lower_bounds.
  assert (He : 0 < e <= 1) by (split; [apply exp_pos | apply exp_le_1; unfold Rdiv; nra]).
  assert (Hv : 0 < v <= 1) by (split; [apply exp_pos | apply exp_le_1; unfold Rdiv; nra]).
  assert (Ex : x = a + (x - a)) by ring. assert (Exd : x + d = a + ((x - a) + d)) by ring.
  assert (Eve : exp (- (x - a + d) / b) = v * e) by (unfold v, e; rewrite <- exp_plus; f_equal; unfold Rdiv; ring).
  assert (HB : 0 <= B <= v * e).
  { split; [unfold B; destruct u; simpl; [left; apply exp_pos | lra]|].
    assert (U := upper_bounds b u (x + d) Hb Hu). rewrite Exd, shifted_upper, Eve in U by assumption. fold B in U.
    assert (0 < v * e) by nra. apply Rmult_le_reg_r with (/ (v * e)); [now apply Rinv_0_lt_compat|].
    rewrite Rinv_r by lra. unfold Rdiv in U. lra. }
  rewrite Exd, (shifted_lower b l a (x - a + d)), (shifted_upper b u a (x - a + d)), Eve by assumption.
  rewrite (shifted_lower b l a d), (shifted_upper b u a d) by assumption.
  rewrite Ex at 1 2. rewrite (shifted_lower b l a (x - a)), (shifted_upper b u a (x - a)) by assumption.
  fold A B e v. replace (exp (- (x - a) / b)) with v by reflexivity.
  assert (H := log_concave_core A B e v HA (proj1 HB) He Hv (proj2 HB)). lra.
Qed.

(** The noise's tail moves by at most a factor of exp(d/b), so the mass grows by at most that: farther is worse. *)
Lemma mass_step : forall b l u x d, 0 < b -> 0 <= d -> above l x -> below u (x + d) ->
  mass b l u x <= exp (d / b) * mass b l u (x + d).
Proof.
  intros b l u x d Hb Hd Hl Hu. assert (Hi : 0 < / b) by now apply Rinv_0_lt_compat. unfold mass.
  rewrite shifted_lower, shifted_upper by assumption.
  assert (HA := lower_bounds b l x Hb Hl). assert (HB : 0 <= past b (to_upper u x)).
  { destruct u; simpl; [left; apply exp_pos | lra]. }
  set (A := past b (from_lower l x)) in *. set (B := past b (to_upper u x)) in *.
  assert (E : exp (- d / b) = / exp (d / b)) by (rewrite <- exp_Ropp; f_equal; unfold Rdiv; ring). rewrite E.
  assert (Hk : 1 <= exp (d / b)) by (apply exp_ge_1; unfold Rdiv; nra). set (k := exp (d / b)) in *.
  assert (U := upper_bounds b u (x + d) Hb Hu). rewrite shifted_upper in U by assumption. fold B in U.
  rewrite E in U. unfold Rdiv in U. rewrite Rinv_inv in U by lra.
  unfold Rdiv. rewrite Rinv_inv by lra. replace (k * (1 - (A * / k + B * k) * / 2)) with (k - (A + B * k * k) / 2)
    by (field; lra).
  assert (B * k * k <= k) by nra. assert (B <= B * k) by nra. nra.
Qed.

Lemma worst_upward : forall b l u a s x d, 0 < b -> above l a -> below u (x + d) -> below u (a + s) -> apart l u ->
  a <= x -> 0 <= d <= s ->
  exp (d / b) * mass b l u (x + d) * mass b l u a <= exp (s / b) * mass b l u (a + s) * mass b l u x.
Proof.
  intros b l u a s x d Hb Hl Hu Hus Hap Hax [Hd Hds].
  assert (Hx : above l x) by (destruct l; simpl in *; lra).
  assert (Hxu : below u x) by (destruct u; simpl in *; lra).
  assert (S1 := log_concave b l u a x d Hb Hax Hd Hl Hu).
  assert (Had : above l (a + d)) by (destruct l; simpl in *; lra).
  assert (Has : below u (a + d + (s - d))) by (replace (a + d + (s - d)) with (a + s) by ring; assumption).
  assert (S2 := mass_step b l u (a + d) (s - d) Hb ltac:(lra) Had Has).
  replace (a + d + (s - d)) with (a + s) in S2 by ring.
  assert (Mx := mass_pos b l u x Hb Hap Hx Hxu).
  assert (Ed : 0 < exp (d / b)) by apply exp_pos.
  assert (E : exp (s / b) = exp (d / b) * exp ((s - d) / b)).
  { rewrite <- exp_plus. f_equal. unfold Rdiv. ring. }
  rewrite E, !Rmult_assoc. apply Rmult_le_compat_l; [lra|].
  apply Rle_trans with (1 := S1).
  rewrite <- Rmult_assoc. apply Rmult_le_compat_r; lra.
Qed.

(** Seen from the other end. *)
Lemma mirrored : forall b l u x, mass b (option_map Ropp u) (option_map Ropp l) (- x) = mass b l u x.
Proof.
  intros. unfold mass. rewrite Rplus_comm. f_equal. f_equal.
  destruct l as [l|]; destruct u as [u|]; simpl; try (replace (- l - - x) with (x - l) by ring);
    try (replace (- x - - u) with (u - x) by ring); reflexivity.
Qed.

Section Theorem_.
Variables (b : R) (l u : option R) (first last s eps : R).
Hypothesis Hb : 0 < b.
Hypothesis Hs : 0 < s <= last - first.
Hypothesis Hap : apart l u.
Hypothesis Hl : above l first.
Hypothesis Hu : below u last.
Hypothesis upward : exp (s / b) * mass b l u (first + s) <= exp eps * mass b l u first.
Hypothesis downward : exp (s / b) * mass b l u (last - s) <= exp eps * mass b l u last.

Lemma in_support : forall x, first <= x <= last -> above l x /\ below u x.
Proof. intros x Hx. destruct l; destruct u; simpl in *; split; trivial; lra. Qed.

Lemma worst_pair : forall x x', first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  exp (Rabs (x - x') / b) * mass b l u x' <= exp eps * mass b l u x.
Proof.
  intros x x' Hx Hx' Hd.
  assert (Sx := in_support x Hx). assert (Sx' := in_support x' Hx').
  assert (Mx := mass_pos b l u x Hb Hap (proj1 Sx) (proj2 Sx)).
  destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in * by lra. replace (- (x - x')) with (x' - x) in * by ring.
    assert (Fu : below u (first + s)) by (destruct u; simpl in *; lra).
    assert (Fx : below u (x + (x' - x))) by (replace (x + (x' - x)) with x' by ring; tauto).
    assert (H := worst_upward b l u first s x (x' - x) Hb Hl Fx Fu Hap (proj1 Hx) ltac:(lra)).
    replace (x + (x' - x)) with x' in H by ring.
    assert (Mf : 0 < mass b l u first) by (apply mass_pos; trivial; destruct u; simpl in *; lra).
    apply Rmult_le_reg_r with (mass b l u first); [assumption|]. apply Rle_trans with (1 := H).
    replace (exp eps * mass b l u x * mass b l u first) with (exp eps * mass b l u first * mass b l u x) by ring.
    apply Rmult_le_compat_r; lra.
  - rewrite Rabs_right in * by lra.
    set (l' := option_map Ropp u). set (u' := option_map Ropp l).
    assert (Hap' : apart l' u') by (unfold l', u'; destruct l; destruct u; simpl in *; lra).
    assert (Hl' : above l' (- last)) by (unfold l'; destruct u; simpl in *; lra).
    assert (Fu : below u' (- last + s)) by (unfold u'; destruct l; simpl in *; lra).
    assert (Fx : below u' (- x + (x - x'))).
    { unfold u'. destruct l; simpl in *; lra. }
    assert (H := worst_upward b l' u' (- last) s (- x) (x - x') Hb Hl' Fx Fu Hap' ltac:(lra) ltac:(lra)).
    replace (- x + (x - x')) with (- x') in H by ring. replace (- last + s) with (- (last - s)) in H by ring.
    unfold l', u' in H. rewrite !mirrored in H.
    assert (Mf : 0 < mass b l u last) by (apply mass_pos; trivial; destruct l; simpl in *; lra).
    apply Rmult_le_reg_r with (mass b l u last); [assumption|]. apply Rle_trans with (1 := H).
    replace (exp eps * mass b l u x * mass b l u last) with (exp eps * mass b l u last * mass b l u x) by ring.
    apply Rmult_le_compat_r; lra.
Qed.

(** Neighbouring answers have densities within a factor of exp(eps), at every output. *)
Theorem truncated_laplace : forall x x' y, first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  density b l u x y <= exp eps * density b l u x' y.
Proof.
  intros x x' y Hx Hx' Hd. unfold density.
  assert (Sx := in_support x Hx). assert (Sx' := in_support x' Hx').
  assert (Mx := mass_pos b l u x Hb Hap (proj1 Sx) (proj2 Sx)).
  assert (Mx' := mass_pos b l u x' Hb Hap (proj1 Sx') (proj2 Sx')).
  assert (Q := worst_pair x x' Hx Hx' Hd).
  assert (Hi : 0 < / b) by now apply Rinv_0_lt_compat.
  assert (T : exp (- Rabs (y - x) / b) <= exp (Rabs (x - x') / b) * exp (- Rabs (y - x') / b)).
  { rewrite <- exp_plus. apply exp_le. unfold Rdiv.
    assert (Rabs (y - x') <= Rabs (y - x) + Rabs (x - x')).
    { replace (y - x') with ((y - x) + (x - x')) by ring. apply Rabs_triang. } nra. }
  set (w := exp (- Rabs (y - x') / b)) in *. assert (Hw : 0 < w) by apply exp_pos.
  apply Rmult_le_reg_r with (2 * b * mass b l u x * mass b l u x'); [apply Rmult_lt_0_compat; nra|].
  replace (exp (- Rabs (y - x) / b) / (2 * b * mass b l u x) * (2 * b * mass b l u x * mass b l u x'))
    with (exp (- Rabs (y - x) / b) * mass b l u x') by (field; lra).
  replace (exp eps * (w / (2 * b * mass b l u x')) * (2 * b * mass b l u x * mass b l u x'))
    with (exp eps * w * mass b l u x) by (field; lra).
  apply Rle_trans with (exp (Rabs (x - x') / b) * w * mass b l u x'); [apply Rmult_le_compat_r; lra|].
  replace (exp (Rabs (x - x') / b) * w * mass b l u x') with (w * (exp (Rabs (x - x') / b) * mass b l u x')) by ring.
  replace (exp eps * w * mass b l u x) with (w * (exp eps * mass b l u x)) by ring.
  apply Rmult_le_compat_l; lra.
Qed.
End Theorem_.

(** With less noise, the pair at an end of the range is refuted by the output there. *)
Lemma refuted_upward : forall b l u first s eps, 0 < b -> 0 < s -> apart l u -> above l first -> below u (first + s) ->
  exp eps * mass b l u first < exp (s / b) * mass b l u (first + s) ->
  exp eps * density b l u (first + s) first < density b l u first first.
Proof.
  intros b l u first s eps Hb Hs Hap Hl Hu H. unfold density.
  assert (M : 0 < mass b l u first) by (apply mass_pos; trivial; destruct u; simpl in *; lra).
  assert (M' : 0 < mass b l u (first + s)) by (apply mass_pos; trivial; destruct l; simpl in *; lra).
  rewrite Rabs_left1, (Rabs_right (first - first)) by lra.
  replace (- (first - first) / b) with 0 by (unfold Rdiv; ring). rewrite exp_0.
  replace (- - (first - (first + s)) / b) with (- (s / b)) by (unfold Rdiv; ring). rewrite exp_Ropp.
  assert (E : 0 < exp (s / b)) by apply exp_pos. assert (Ee : 0 < exp eps) by apply exp_pos.
  apply Rmult_lt_reg_r with (2 * b * mass b l u (first + s) * mass b l u first * exp (s / b)).
  - repeat apply Rmult_lt_0_compat; lra.
  - replace (exp eps * (/ exp (s / b) / (2 * b * mass b l u (first + s))) *
      (2 * b * mass b l u (first + s) * mass b l u first * exp (s / b))) with (exp eps * mass b l u first) by (field; lra).
    replace (1 / (2 * b * mass b l u first) * (2 * b * mass b l u (first + s) * mass b l u first * exp (s / b)))
      with (exp (s / b) * mass b l u (first + s)) by (field; lra). assumption.
Qed.

Lemma refuted_downward : forall b l u last s eps, 0 < b -> 0 < s -> apart l u -> above l (last - s) -> below u last ->
  exp eps * mass b l u last < exp (s / b) * mass b l u (last - s) ->
  exp eps * density b l u (last - s) last < density b l u last last.
Proof.
  intros b l u last s eps Hb Hs Hap Hl Hu H.
  assert (K := refuted_upward b (option_map Ropp u) (option_map Ropp l) (- last) s eps Hb Hs).
  replace (- last + s) with (- (last - s)) in K by ring. unfold density in *. rewrite !mirrored in K.
  replace (- last - - (last - s)) with (- (last - (last - s))) in K by ring. rewrite Rabs_Ropp in K.
  replace (- last - - last) with (last - last) in K by ring. apply K; destruct l; destruct u; simpl in *; lra.
Qed.

(** Where the support is the range and all answers are neighbours, its ends are the worst pair, and have the same mass. *)
Theorem all_neighbours : forall b l u s eps, 0 < b -> l < u -> s = u - l -> s <= b * eps -> forall x x' y,
  l <= x <= u -> l <= x' <= u -> Rabs (x - x') <= s ->
  density b (Some l) (Some u) x y <= exp eps * density b (Some l) (Some u) x' y.
Proof.
  intros b l u s eps Hb Hlu Hs He. assert (Hi := div_pos b Hb). subst s.
  assert (E : mass b (Some l) (Some u) u = mass b (Some l) (Some u) l).
  { unfold mass, past, from_lower, to_upper. cbv iota beta. replace (u - u) with (l - l) by ring. lra. }
  assert (K : exp ((u - l) / b) <= exp eps).
  { apply exp_le. replace eps with (b * eps * / b) by (field; lra). unfold Rdiv. apply Rmult_le_compat_r; lra. }
  assert (M : 0 < mass b (Some l) (Some u) l) by (apply mass_pos; simpl; lra).
  apply truncated_laplace with (first := l) (last := u) (s := u - l); simpl; try lra.
  - replace (l + (u - l)) with u by ring. rewrite E. apply Rmult_le_compat_r; lra.
  - replace (u - (u - l)) with l by ring. rewrite E. apply Rmult_le_compat_r; lra.
Qed.

(** Where the range is in the middle of the support, one direction is the other. *)
Theorem in_the_middle : forall b l u first last s eps, 0 < b -> 0 < s <= last - first -> l < u -> l <= first -> first - l = u - last ->
  exp (s / b) * mass b (Some l) (Some u) (first + s) <= exp eps * mass b (Some l) (Some u) first -> forall x x' y,
  first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  density b (Some l) (Some u) x y <= exp eps * density b (Some l) (Some u) x' y.
Proof.
  intros b l u first last s eps Hb Hs Hlu Hl E H x x' y Hx Hx' Hd.
  assert (M : forall z, mass b (Some l) (Some u) (l + u - z) = mass b (Some l) (Some u) z).
  { intro. unfold mass, past, from_lower, to_upper. replace (l + u - z - l) with (u - z) by ring.
    replace (u - (l + u - z)) with (z - l) by ring. now rewrite (Rplus_comm (exp (- (u - z) / b))). }
  apply truncated_laplace with (first := first) (last := last) (s := s); simpl; try assumption; try lra.
  replace (last - s) with (l + u - (first + s)) by lra. replace last with (l + u - first) by lra. now rewrite !M.
Qed.
