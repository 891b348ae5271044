(** Laplace noise truncated to an interval or a half-line, at a delta: what the best threshold finds, in closed form. *)
From Coq Require Import Reals Lra Psatz.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy HockeyStick UnboundedLaplace TruncatedLaplace.
Open Scope R_scope.

(** The probability that the output at the answer x is at most z, for z in the support. *)
Definition at_most (b : R) (l u : option R) (x z : R) : R :=
  (UnboundedLaplace.at_most b (z - x) - past b (from_lower l x) / 2) / mass b l u x.

Lemma density_is : forall b l u x y, 0 < b -> mass b l u x <> 0 ->
  density b l u x y = UnboundedLaplace.density b x y / mass b l u x.
Proof. intros. unfold density, UnboundedLaplace.density. field. lra. Qed.

Lemma continuous_density : forall b l u x y, 0 < b -> mass b l u x <> 0 -> continuous (density b l u x) y.
Proof.
  intros b l u x y Hb Hm. apply (continuous_ext (fun y => / mass b l u x * UnboundedLaplace.density b x y)).
  - intro z. rewrite density_is by assumption. exact (Rmult_comm _ _).
  - apply (continuous_mult (K := R_AbsRing) (fun _ => / mass b l u x)); [apply continuous_const|].
    now apply (UnboundedLaplace.continuous_density b).
Qed.

Lemma at_most_is_integral : forall b l u x c d, 0 < b -> 0 < mass b l u x -> c <= d ->
  is_RInt (density b l u x) c d (at_most b l u x d - at_most b l u x c).
Proof.
  intros b l u x c d Hb Hm Hcd.
  replace (at_most b l u x d - at_most b l u x c)
    with (/ mass b l u x * (UnboundedLaplace.at_most b (d - x) - UnboundedLaplace.at_most b (c - x)))
    by (unfold at_most; field; lra).
  apply (is_RInt_ext (fun y => scal (/ mass b l u x) (UnboundedLaplace.density b x y))).
  - intros. rewrite density_is by lra. exact (Rmult_comm _ _).
  - apply (is_RInt_scal (V := R_NormedModule)). now apply UnboundedLaplace.at_most_is_integral.
Qed.

(** On an interval the density is one of a law: it integrates to one. *)
Theorem adds_up : forall b l u x, 0 < b -> l < u -> l <= x <= u -> is_RInt (density b (Some l) (Some u) x) l u 1.
Proof.
  intros b l u x Hb Hlu Hx. assert (M : 0 < mass b (Some l) (Some u) x) by (apply mass_pos; simpl; lra).
  replace 1 with (at_most b (Some l) (Some u) x u - at_most b (Some l) (Some u) x l); [apply at_most_is_integral; lra|].
  unfold at_most. rewrite at_most_above, (at_most_below b (l - x)) by lra. unfold mass, past, from_lower, to_upper in *.
  cbv beta iota in *. replace ((l - x) / b) with (- (x - l) / b) by (unfold Rdiv; ring). field. lra.
Qed.

Lemma at_lower : forall b l u x, 0 < b -> l <= x -> at_most b (Some l) u x l = 0.
Proof.
  intros b l u x Hb Hx. unfold at_most. rewrite at_most_below by lra. unfold past, from_lower. cbv beta iota.
  replace (- (x - l) / b) with ((l - x) / b) by (unfold Rdiv; ring). unfold Rdiv. ring.
Qed.

(** The density ratio of two answers x <= x' falls from left to right. *)
Lemma gap_falls : forall x x' y z, x <= x' -> y <= z -> Rabs (z - x') - Rabs (z - x) <= Rabs (y - x') - Rabs (y - x).
Proof. intros x x' y z Hx Hy. unfold Rabs. repeat destruct (Rcase_abs _); lra. Qed.

Section Pair.
Variables (b : R) (l u : option R) (x x' : R).
Hypothesis Hb : 0 < b.
Hypothesis Hap : apart l u.
Hypothesis Hx : x <= x'.
Hypothesis Hl : above l x.
Hypothesis Hu : below u x'.

Lemma masses : 0 < mass b l u x /\ 0 < mass b l u x'.
Proof. split; apply mass_pos; trivial; destruct l; destruct u; simpl in *; lra. Qed.

Lemma low : forall z, z <= x -> at_most b l u x' z * (mass b l u x' * exp ((x' - x) / b)) = at_most b l u x z * mass b l u x.
Proof.
  intros z Hz. destruct masses as [M M']. unfold at_most. rewrite !at_most_below by lra.
  assert (E : past b (from_lower l x') * exp ((x' - x) / b) = past b (from_lower l x)).
  { replace x' with (x + (x' - x)) at 1 by ring. rewrite shifted_lower by assumption. rewrite Rmult_assoc, <- exp_plus.
    replace (- (x' - x) / b + (x' - x) / b) with 0 by (unfold Rdiv; ring). rewrite exp_0. ring. }
  assert (F : exp ((z - x') / b) * exp ((x' - x) / b) = exp ((z - x) / b)) by (rewrite <- exp_plus; f_equal; unfold Rdiv; ring).
  rewrite <- E, <- F. field. lra.
Qed.

Lemma high : forall z, x' <= z ->
  (1 - at_most b l u x z) * (mass b l u x * exp ((x' - x) / b)) = (1 - at_most b l u x' z) * mass b l u x'.
Proof.
  intros z Hz. destruct masses as [M M']. unfold at_most. rewrite !at_most_above by lra.
  assert (E : past b (to_upper u x) * exp ((x' - x) / b) = past b (to_upper u x')).
  { replace x' with (x + (x' - x)) at 2 by ring. rewrite shifted_upper by assumption. unfold Rdiv at 2.
    rewrite <- exp_Ropp. f_equal. f_equal. unfold Rdiv. ring. }
  assert (F : exp (- (z - x) / b) * exp ((x' - x) / b) = exp (- (z - x') / b)) by (rewrite <- exp_plus; f_equal; unfold Rdiv; ring).
  assert (Z : forall q, 1 - (1 - exp (- (z - q) / b) / 2 - past b (from_lower l q) / 2) / mass b l u q
    = (exp (- (z - q) / b) - past b (to_upper u q)) / 2 / mass b l u q \/ mass b l u q = 0).
  { intro q. destruct (Req_dec (mass b l u q) 0); [now right | left]. unfold mass in *. field. lra. }
  destruct (Z x) as [Z1|Z1]; [|lra]. destruct (Z x') as [Z2|Z2]; [|lra]. rewrite Z1, Z2, <- E, <- F. field. lra.
Qed.

Lemma grows : forall p z, mass b l u p > 0 -> p <= z -> at_most b l u p p <= at_most b l u p z.
Proof.
  intros p z M H. unfold at_most. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|].
  assert (K := at_most_rises b Hb (p - p) (z - p) ltac:(lra)). replace (p - p + (z - p)) with (z - p) in K by ring. lra.
Qed.

Lemma rises : forall p y z, mass b l u p > 0 -> y <= z -> at_most b l u p y <= at_most b l u p z.
Proof.
  intros p y z M H. unfold at_most. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|].
  assert (K := at_most_rises b Hb (y - p) (z - y) ltac:(lra)). replace (y - p + (z - y)) with (z - p) in K by ring. lra.
Qed.

Lemma starts : forall p z, mass b l u p > 0 -> above l z -> above l p -> 0 <= at_most b l u p z.
Proof.
  intros p z M Hz Hp. destruct l as [l'|] eqn:El; simpl in *.
  - rewrite <- El in M. apply Rle_trans with (at_most b (Some l') u p l'); [right; symmetry; now apply at_lower|].
    rewrite <- El. apply rises; [assumption | lra].
  - unfold at_most, past, from_lower. apply Rmult_le_pos; [|left; now apply Rinv_0_lt_compat].
    assert (P := at_most_pos b Hb (z - p)). lra.
Qed.

Lemma ends : forall p z, mass b l u p > 0 -> below u z -> below u p -> at_most b l u p z <= 1.
Proof.
  intros p z M Hz Hp. apply Rmult_le_reg_r with (mass b l u p); [assumption|]. unfold at_most, Rdiv at 1.
  rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra. unfold mass.
  enough (UnboundedLaplace.at_most b (z - p) <= 1 - past b (to_upper u p) / 2) by lra.
  destruct u as [u'|]; simpl in *.
  - assert (K := at_most_rises b Hb (z - p) (u' - z) ltac:(lra)). replace (z - p + (u' - z)) with (u' - p) in K by ring.
    rewrite (at_most_above b (u' - p)) in K by lra. lra.
  - unfold UnboundedLaplace.at_most. destruct (Rle_dec (z - p) 0).
    + assert (exp ((z - p) / b) <= 1) by (apply exp_le_1; assert (I := div_pos b Hb); unfold Rdiv; nra). lra.
    + assert (0 < exp (- (z - p) / b)) by apply exp_pos. lra.
Qed.

(** Between the answers, in the terms of the closed form. *)
Definition share (v : R) : R := (1 - v / 2 - past b (from_lower l x) / 2) / mass b l u x.
Definition other (v : R) : R := (exp (- (x' - x) / b) / v / 2 - past b (from_lower l x') / 2) / mass b l u x'.

Lemma between : forall z, x <= z <= x' -> exists v, exp (- (x' - x) / b) <= v <= 1 /\ at_most b l u x z = share v /\ at_most b l u x' z = other v.
Proof.
  intros z Hz. exists (exp (- (z - x) / b)). assert (I := div_pos b Hb).
  repeat split.
  - apply exp_le. unfold Rdiv. nra.
  - apply exp_le_1. unfold Rdiv. nra.
  - unfold at_most, share. now rewrite at_most_above by lra.
  - unfold at_most, other. rewrite at_most_below by lra. f_equal. f_equal. f_equal.
    replace (- (x' - x) / b) with ((z - x') / b + - (z - x) / b) by (unfold Rdiv; ring). rewrite exp_plus.
    assert (V := exp_pos (- (z - x) / b)). field. lra.
Qed.

(** No threshold finds more than this, which the inequality of the means says. *)
Lemma found_between : forall k delta z, 0 < k -> x <= z <= x' ->
  (2 - past b (from_lower l x)) * mass b l u x' + k * past b (from_lower l x') * mass b l u x
    - 2 * sqrt (k * exp (- (x' - x) / b) * (mass b l u x * mass b l u x')) <= 2 * delta * (mass b l u x * mass b l u x') ->
  at_most b l u x z - k * at_most b l u x' z <= delta.
Proof.
  intros k delta z Hk Hz H. destruct masses as [M M']. destruct (between z Hz) as [v [[V0 V1] [-> ->]]].
  assert (E : 0 < exp (- (x' - x) / b)) by apply exp_pos. unfold share, other.
  set (e := exp (- (x' - x) / b)) in *. set (A := past b (from_lower l x)) in *. set (A' := past b (from_lower l x')) in *.
  set (Z := mass b l u x) in *. set (Z' := mass b l u x') in *. assert (V : 0 < v) by lra.
  set (g := v * Z'). set (h := k * e * Z / v).
  assert (G : 0 < g) by (unfold g; nra). assert (HH : 0 < h) by (unfold h, Rdiv; repeat apply Rmult_lt_0_compat; try lra; now apply Rinv_0_lt_compat).
  assert (S : sqrt (k * e * (Z * Z')) = sqrt g * sqrt h).
  { rewrite <- sqrt_mult by lra. f_equal. unfold g, h. field. lra. }
  assert (AG : 2 * (sqrt g * sqrt h) <= g + h).
  { assert (G2 := sqrt_sqrt g ltac:(lra)). assert (H2 := sqrt_sqrt h ltac:(lra)). assert (Q := Rle_0_sqr (sqrt g - sqrt h)). unfold Rsqr in Q. lra. }
  apply Rmult_le_reg_r with (2 * (Z * Z')); [nra|].
  replace (((1 - v / 2 - A / 2) / Z - k * ((e / v / 2 - A' / 2) / Z')) * (2 * (Z * Z')))
    with ((2 - A) * Z' + k * A' * Z - (g + h)) by (unfold g, h; field; lra). rewrite S in H. lra.
Qed.

Lemma found_anywhere : forall k delta z, 1 <= k -> 0 <= delta -> above l z -> below u z ->
  (forall y, x <= y <= x' -> at_most b l u x y - k * at_most b l u x' y <= delta) ->
  at_most b l u x z - k * at_most b l u x' z <= delta.
Proof.
  intros k delta z Hk Hd Hzl Hzu H. destruct masses as [M M'].
  assert (Lx : above l x') by (destruct l; simpl in *; lra). assert (Ux : below u x) by (destruct u; simpl in *; lra).
  destruct (Rle_dec x z) as [L|L]; [destruct (Rle_dec z x') as [N|N]; [apply H; lra|]|].
  - (* right of both: both have all but a tail, and the factor between the tails is at most k *)
    apply Rnot_le_lt in N. assert (B := H x' ltac:(lra)). assert (E1 := high z ltac:(lra)). assert (E2 := high x' ltac:(lra)).
    assert (G := rises x' x' z M' ltac:(lra)). assert (T := ends x' z M' Hzu Hu).
    assert (MS := mass_step b l u x (x' - x) Hb ltac:(lra) Hl ltac:(replace (x + (x' - x)) with x' by ring; exact Hu)).
    replace (x + (x' - x)) with x' in MS by ring.
    assert (MU : mass b l u x' <= exp ((x' - x) / b) * mass b l u x).
    { assert (K := mass_step b (option_map Ropp u) (option_map Ropp l) (- x') (x' - x) Hb ltac:(lra)).
      replace (- x' + (x' - x)) with (- x) in K by ring. rewrite !mirrored in K. apply K; destruct l; destruct u; simpl in *; lra. }
    set (w := mass b l u x * exp ((x' - x) / b)) in *. assert (W : 0 < w) by (apply Rmult_lt_0_compat; [assumption | apply exp_pos]).
    set (r := mass b l u x' / w). assert (R1 : r <= 1).
    { apply Rmult_le_reg_r with w; [assumption|]. unfold r. replace (mass b l u x' / w * w) with (mass b l u x') by (field; lra). unfold w. lra. }
    assert (F1 : 1 - at_most b l u x z = r * (1 - at_most b l u x' z))
      by (apply Rmult_eq_reg_r with w; [rewrite E1; unfold r; field; lra | lra]).
    assert (F2 : 1 - at_most b l u x x' = r * (1 - at_most b l u x' x'))
      by (apply Rmult_eq_reg_r with w; [rewrite E2; unfold r; field; lra | lra]).
    nra.
  - apply Rnot_le_lt in L. assert (B := H x ltac:(lra)). assert (E1 := low z ltac:(lra)). assert (E2 := low x ltac:(lra)).
    assert (G := rises x' z x M' ltac:(lra)). assert (T := starts x' z M' Hzl Lx).
    set (w := mass b l u x' * exp ((x' - x) / b)) in *. assert (W : 0 < w) by (apply Rmult_lt_0_compat; [assumption | apply exp_pos]).
    set (r := w / mass b l u x).
    assert (F1 : at_most b l u x z = r * at_most b l u x' z)
      by (apply Rmult_eq_reg_r with (mass b l u x); [rewrite <- E1; unfold r; field; lra | lra]).
    assert (F2 : at_most b l u x x = r * at_most b l u x' x)
      by (apply Rmult_eq_reg_r with (mass b l u x); [rewrite <- E2; unfold r; field; lra | lra]).
    destruct (Rle_dec r k); nra.
Qed.

(** A later answer has a later output. *)
Lemma later : forall z, above l z -> below u z -> at_most b l u x' z <= at_most b l u x z.
Proof.
  intros z Hzl Hzu. destruct masses as [M M'].
  assert (Lx : above l x') by (destruct l; simpl in *; lra). assert (Ux : below u x) by (destruct u; simpl in *; lra).
  assert (K := mass_step b l u x (x' - x) Hb ltac:(lra) Hl ltac:(replace (x + (x' - x)) with x' by ring; exact Hu)).
  replace (x + (x' - x)) with x' in K by ring.
  assert (MU : mass b l u x' <= exp ((x' - x) / b) * mass b l u x).
  { assert (N := mass_step b (option_map Ropp u) (option_map Ropp l) (- x') (x' - x) Hb ltac:(lra)).
    replace (- x' + (x' - x)) with (- x) in N by ring. rewrite !mirrored in N. apply N; destruct l; destruct u; simpl in *; lra. }
  set (w := exp ((x' - x) / b)) in *. assert (W : 0 < w) by apply exp_pos.
  set (F := at_most b l u x). set (F' := at_most b l u x').
  assert (Lo : forall y, y <= x -> above l y -> F' y <= F y).
  { intros y Hy Ha. assert (E := low y Hy). fold (F y) (F' y) w in E. assert (P := starts x' y M' Ha Lx). fold (F' y) in P.
    apply Rmult_le_reg_r with (mass b l u x); [assumption|]. rewrite <- E. apply Rmult_le_compat_l; lra. }
  assert (Hi : forall y, x' <= y -> below u y -> F' y <= F y).
  { intros y Hy Ha. assert (E := high y Hy). fold (F y) (F' y) w in E. assert (P := ends x' y M' Ha Hu). fold (F' y) in P.
    enough (1 - F y <= 1 - F' y) by lra. apply Rmult_le_reg_r with (mass b l u x * w); [nra|]. rewrite E. apply Rmult_le_compat_l; lra. }
  destruct (Rle_dec z x) as [L|L]; [now apply Lo|]. destruct (Rle_dec x' z) as [N|N]; [now apply Hi|].
  (* between the answers the difference rises, then falls: it is above the smaller of its values at the ends *)
  apply Rnot_le_lt in L, N. set (rho := exp (- Rabs (z - x') / b) / mass b l u x' * mass b l u x / exp (- Rabs (z - x) / b)).
  assert (D : forall p y, mass b l u p > 0 -> density b l u p y = exp (- Rabs (y - p) / b) / (2 * b) / mass b l u p)
    by (intros; unfold density; field; lra).
  assert (Q : forall c d, c <= d -> (forall y, c < y < d -> density b l u x' y <= density b l u x y) -> F' d - F' c <= F d - F c).
  { intros c d Hcd H. apply (is_RInt_le (density b l u x') (density b l u x) c d); [assumption | apply at_most_is_integral; lra | apply at_most_is_integral; lra | exact H]. }
  assert (Q' : forall c d, c <= d -> (forall y, c < y < d -> density b l u x y <= density b l u x' y) -> F d - F c <= F' d - F' c).
  { intros c d Hcd H. apply (is_RInt_le (density b l u x) (density b l u x') c d); [assumption | apply at_most_is_integral; lra | apply at_most_is_integral; lra | exact H]. }
  assert (T : forall y z', y <= z' -> density b l u x' y * density b l u x z' <= density b l u x y * density b l u x' z').
  { intros y z' Hy. rewrite !D by assumption. assert (I := div_pos b Hb).
    assert (Z : exp (- Rabs (y - x') / b) * exp (- Rabs (z' - x) / b) <= exp (- Rabs (y - x) / b) * exp (- Rabs (z' - x') / b)).
    { rewrite <- !exp_plus. apply exp_le. assert (Y := gap_falls x x' y z' Hx Hy). unfold Rdiv. nra. }
    apply Rmult_le_reg_r with (2 * b * (2 * b) * (mass b l u x * mass b l u x')); [repeat apply Rmult_lt_0_compat; lra|].
    match goal with |- ?a * _ <= ?c * _ =>
      replace (a * (2 * b * (2 * b) * (mass b l u x * mass b l u x'))) with (exp (- Rabs (y - x') / b) * exp (- Rabs (z' - x) / b)) by (field; lra);
      replace (c * (2 * b * (2 * b) * (mass b l u x * mass b l u x'))) with (exp (- Rabs (y - x) / b) * exp (- Rabs (z' - x') / b)) by (field; lra) end.
    exact Z. }
  assert (Pos : forall p y, mass b l u p > 0 -> 0 < density b l u p y).
  { intros p y Mp. rewrite D by assumption. unfold Rdiv. repeat apply Rmult_lt_0_compat; try apply Rinv_0_lt_compat; try apply exp_pos; lra. }
  assert (Pz := Pos x z M). assert (Pz' := Pos x' z M').
  destruct (Rle_dec (density b l u x' z) (density b l u x z)) as [C|C].
  - assert (J := Q x z ltac:(lra)). assert (S := Lo x ltac:(lra) Hl). enough (F' z - F' x <= F z - F x) by lra. apply J. intros y Hy.
    assert (Ty := T y z ltac:(lra)). assert (Py := Pos x y M). assert (Py' := Pos x' y M'). nra.
  - apply Rnot_le_lt in C. assert (J := Q' z x' ltac:(lra)). assert (S := Hi x' ltac:(lra) Hu).
    enough (F x' - F z <= F' x' - F' z) by lra. apply J. intros y Hy.
    assert (Ty := T z y ltac:(lra)). assert (Py := Pos x y M). assert (Py' := Pos x' y M'). nra.
Qed.

(** From thresholds to tests. *)
Lemma tests : forall eps delta c d f, 0 <= eps -> 0 <= delta -> c <= d -> above l c -> below u d -> test f ->
  (forall z, above l z -> below u z -> at_most b l u x z - exp eps * at_most b l u x' z <= delta) ->
  ex_RInt (fun y => density b l u x y * f y) c d -> ex_RInt (fun y => density b l u x' y * f y) c d ->
  RInt (fun y => density b l u x y * f y) c d <= exp eps * RInt (fun y => density b l u x' y * f y) c d + delta.
Proof.
  intros eps delta c d f Heps Hdelta Hcd Hc Hd Hf H P Q. destruct masses as [M M'].
  assert (I := div_pos b Hb). set (L := eps + ln (mass b l u x / mass b l u x')).
  assert (Ratio : forall y, exp eps * density b l u x' y = exp (L - Rabs (y - x') / b) / (2 * b * mass b l u x)).
  { intro y. unfold density, L. replace (eps + ln (mass b l u x / mass b l u x') - Rabs (y - x') / b)
      with (eps + (ln (mass b l u x / mass b l u x') + - Rabs (y - x') / b)) by (unfold Rdiv; ring).
    rewrite !exp_plus, exp_ln by (apply Rdiv_lt_0_compat; assumption). field. lra. }
  assert (W : 0 < / (2 * b * mass b l u x)) by (apply Rinv_0_lt_compat; repeat apply Rmult_lt_0_compat; lra).
  assert (Bl : b * L / b = L) by (field; lra).
  assert (Up : forall y, b * L <= Rabs (y - x') - Rabs (y - x) -> exp eps * density b l u x' y <= density b l u x y).
  { intros y Hy. rewrite Ratio. unfold density. apply Rmult_le_compat_r; [lra|]. apply exp_le. rewrite <- Bl. unfold Rdiv. nra. }
  assert (Down : forall y, Rabs (y - x') - Rabs (y - x) <= b * L -> density b l u x y <= exp eps * density b l u x' y).
  { intros y Hy. rewrite Ratio. unfold density. apply Rmult_le_compat_r; [lra|]. apply exp_le. rewrite <- Bl. unfold Rdiv. nra. }
  destruct (Rle_dec (x' - x) (b * L)) as [N|N].
  - enough (RInt (fun y => density b l u x y * f y) c d <= exp eps * RInt (fun y => density b l u x' y * f y) c d) by lra.
    apply events; try assumption; [left; apply exp_pos | | intros; apply Hf].
    intros y _. apply Down. assert (G := Rabs_triang (y - x) (x - x')). replace (y - x + (x - x')) with (y - x') in G by ring.
    rewrite (Rabs_left1 (x - x')) in G by lra. lra.
  - apply Rnot_le_lt in N.
    assert (Low : - (x' - x) <= b * L).
    { assert (K := mass_step b (option_map Ropp u) (option_map Ropp l) (- x') (x' - x) Hb ltac:(lra)).
      replace (- x' + (x' - x)) with (- x) in K by ring. rewrite !mirrored in K.
      assert (K' : mass b l u x' <= exp ((x' - x) / b) * mass b l u x) by (apply K; destruct l; destruct u; simpl in *; lra).
      assert (E : - ((x' - x) / b) <= ln (mass b l u x / mass b l u x')).
      { rewrite <- (ln_exp (- ((x' - x) / b))). apply ln_le; [apply exp_pos|]. rewrite exp_Ropp.
        assert (0 < exp ((x' - x) / b)) by apply exp_pos. apply Rmult_le_reg_r with (exp ((x' - x) / b) * mass b l u x'); [nra|].
        replace (/ exp ((x' - x) / b) * (exp ((x' - x) / b) * mass b l u x')) with (mass b l u x') by (field; lra).
        replace (mass b l u x / mass b l u x' * (exp ((x' - x) / b) * mass b l u x')) with (exp ((x' - x) / b) * mass b l u x) by (field; lra).
        assumption. }
      assert (EL : - ((x' - x) / b) <= L) by (unfold L; lra). apply Rmult_le_compat_l with (r := b) in EL; [|lra].
      replace (b * - ((x' - x) / b)) with (- (x' - x)) in EL by (field; lra). assumption. }
    set (m := (x + x' - b * L) / 2). assert (Hm : x <= m <= x') by (unfold m; lra).
    assert (AtM : Rabs (m - x') - Rabs (m - x) = b * L).
    { rewrite Rabs_left1, Rabs_right by lra. unfold m. field. }
    assert (Left : forall y, y <= m -> exp eps * density b l u x' y <= density b l u x y).
    { intros y Hy. apply Up. assert (G := gap_falls x x' y m Hx Hy). lra. }
    apply one_crossing with (m := m); try assumption.
    + intro. apply continuous_density; lra.
    + intro. apply continuous_density; lra.
    + intros y Hy. apply Down. assert (G := gap_falls x x' m y Hx Hy). lra.
    + intros e He _.
      assert (J : forall c e, c <= e -> is_RInt (fun y => density b l u x y - exp eps * density b l u x' y) c e
        (at_most b l u x e - at_most b l u x c - exp eps * (at_most b l u x' e - at_most b l u x' c))).
      { intros. apply (is_RInt_minus (V := R_NormedModule)); [apply at_most_is_integral; lra|].
        apply (is_RInt_scal (V := R_NormedModule)). apply at_most_is_integral; lra. }
      rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ (J c e ltac:(lra))).
      assert (Hel : above l e) by (destruct l; simpl in *; lra). assert (Heu : below u e) by (destruct u; simpl in *; lra).
      assert (A := H e Hel Heu). enough (0 <= at_most b l u x c - exp eps * at_most b l u x' c) by lra.
      assert (Lx : above l x') by (destruct l; simpl in *; lra).
      assert (First : forall y, y <= x -> above l y -> 0 <= at_most b l u x y - exp eps * at_most b l u x' y).
      { intros y Hy Ha. assert (E := low y Hy). assert (T := starts x' y M' Ha Lx).
        assert (K := Left y ltac:(lra)). unfold density in K. rewrite !Rabs_left1 in K by lra.
        apply Rmult_le_reg_r with (mass b l u x); [assumption|]. rewrite Rmult_0_l, Rmult_minus_distr_r, <- E.
        enough (exp eps * mass b l u x <= mass b l u x' * exp ((x' - x) / b)) by nra.
        assert (Ey : exp (- - (y - x) / b) = exp (- - (y - x') / b) * exp ((x' - x) / b)) by (rewrite <- exp_plus; f_equal; unfold Rdiv; ring).
        rewrite Ey in K. assert (0 < exp (- - (y - x') / b)) by apply exp_pos. set (t := exp (- - (y - x') / b)) in *.
        apply Rmult_le_compat_r with (r := 2 * b * mass b l u x * mass b l u x') in K; [|repeat apply Rmult_le_pos; lra].
        replace (exp eps * (t / (2 * b * mass b l u x')) * (2 * b * mass b l u x * mass b l u x')) with (t * (exp eps * mass b l u x)) in K by (field; lra).
        replace (t * exp ((x' - x) / b) / (2 * b * mass b l u x) * (2 * b * mass b l u x * mass b l u x'))
          with (t * (mass b l u x' * exp ((x' - x) / b))) in K by (field; lra).
        apply Rmult_le_reg_l with t; assumption. }
      destruct (Rle_dec c x) as [C|C]; [now apply First|]. apply Rnot_le_lt in C.
      assert (F := First x ltac:(lra) Hl).
      assert (G : 0 <= RInt (fun y => density b l u x y - exp eps * density b l u x' y) x c).
      { apply RInt_ge_0; [lra | eexists; apply (J x c); lra |]. intros y Hy. assert (K := Left y ltac:(lra)). lra. }
      rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ (J x c ltac:(lra))) in G. lra.
Qed.
End Pair.

(** What the best threshold finds between a and a + s, as the closed form, is at most delta. *)
Definition closed_form (b : R) (l u : option R) (s eps delta a : R) : Prop :=
  (2 - past b (from_lower l a)) * mass b l u (a + s) + exp eps * past b (from_lower l (a + s)) * mass b l u a
    - 2 * sqrt (exp eps * exp (- s / b) * (mass b l u a * mass b l u (a + s)))
  <= 2 * delta * (mass b l u a * mass b l u (a + s)).

Lemma thresholds : forall b l u first last s eps delta, 0 < b -> 0 < s <= last - first -> apart l u -> above l first ->
  below u last -> 0 <= eps -> 0 <= delta -> (forall a, first <= a <= last - s -> closed_form b l u s eps delta a) ->
  forall x x' z, first <= x <= x' -> x' <= last -> x' - x <= s -> above l z -> below u z ->
  at_most b l u x z - exp eps * at_most b l u x' z <= delta.
Proof.
  intros b l u first last s eps delta Hb Hs Hap Hl Hu Heps Hdelta H x x' z Hx Hx' Hd Hzl Hzu.
  assert (K : 1 <= exp eps) by now apply exp_ge_1.
  assert (Worst : forall a, first <= a <= last - s -> at_most b l u a z - exp eps * at_most b l u (a + s) z <= delta).
  { intros a Ha. assert (La : above l a) by (destruct l; simpl in *; lra). assert (Ua : below u (a + s)) by (destruct u; simpl in *; lra).
    apply found_anywhere; try assumption; [lra |]. intros y Hy. apply found_between; try assumption; try lra.
    assert (C := H a Ha). unfold closed_form in C. replace (a + s - a) with s by ring. exact C. }
  assert (La : above l x) by (destruct l; simpl in *; lra). assert (Ua : below u x') by (destruct u; simpl in *; lra).
  assert (La' : above l x') by (destruct l; simpl in *; lra).
  destruct (Rle_dec x (last - s)) as [C|C].
  - assert (W := Worst x ltac:(lra)).
    assert (F := later b l u x' (x + s) Hb Hap ltac:(lra) La' ltac:(destruct u; simpl in *; lra) z Hzl Hzu). nra.
  - apply Rnot_le_lt in C. assert (W := Worst (last - s) ltac:(lra)). replace (last - s + s) with last in W by ring.
    assert (F := later b l u x' last Hb Hap ltac:(lra) La' Hu z Hzl Hzu).
    assert (G := later b l u (last - s) x Hb Hap ltac:(lra) ltac:(destruct l; simpl in *; lra) ltac:(destruct u; simpl in *; lra) z Hzl Hzu). nra.
Qed.

Section Theorem_.
Variables (b : R) (l u : option R) (first last s eps delta : R).
Hypothesis Hb : 0 < b.
Hypothesis Hs : 0 < s <= last - first.
Hypothesis Hap : apart l u.
Hypothesis Hl : above l first.
Hypothesis Hu : below u last.
Hypothesis Heps : 0 <= eps.
Hypothesis Hdelta : 0 <= delta.
Hypothesis upward : forall a, first <= a <= last - s -> closed_form b l u s eps delta a.
Hypothesis downward : forall a, - last <= a <= - first - s -> closed_form b (option_map Ropp u) (option_map Ropp l) s eps delta a.

(** Neighbouring answers are (eps, delta)-close under every test of outputs of the support. *)
Theorem truncated_laplace_tests : forall x x' c d f, first <= x <= last -> first <= x' <= last -> Rabs (x - x') <= s ->
  c <= d -> above l c -> below u d -> test f ->
  ex_RInt (fun y => density b l u x y * f y) c d -> ex_RInt (fun y => density b l u x' y * f y) c d ->
  RInt (fun y => density b l u x y * f y) c d <= exp eps * RInt (fun y => density b l u x' y * f y) c d + delta.
Proof.
  intros x x' c d f Hx Hx' Hd Hcd Hc Hdu Hf P Q. destruct (Rle_dec x x') as [L|L].
  - rewrite Rabs_left1 in Hd by lra. apply tests; try assumption; try (destruct l; destruct u; simpl in *; lra).
    intros z Hzl Hzu. apply thresholds with (first := first) (last := last) (s := s); try assumption; lra.
  - apply Rnot_le_lt in L. rewrite Rabs_right in Hd by lra.
    assert (E : forall z y, density b (option_map Ropp u) (option_map Ropp l) (- z) y * f (- y) = (fun y => density b l u z y * f y) (- y)).
    { intros. cbv beta. f_equal. unfold density. rewrite mirrored. replace (y - - z) with (- (- y - z)) by ring. now rewrite Rabs_Ropp. }
    destruct (mirror _ _ c d (E x) P) as [P' EP]. destruct (mirror _ _ c d (E x') Q) as [Q' EQ].
    rewrite <- EP, <- EQ. apply tests; try assumption; try lra; try (destruct l; destruct u; simpl in *; lra).
    + intro. apply Hf.
    + intros z Hzl Hzu. apply thresholds with (first := - last) (last := - first) (s := s); try assumption;
        try lra; destruct l; destruct u; simpl in *; lra.
Qed.
End Theorem_.

(** The closed form in A and B, twice the probabilities beyond the ends at a and at a + s, which is what is computed. *)
Definition bound (e k delta A B : R) : Prop :=
  (2 - A) * (1 - (A * e + B) / 2) + k * (A * e) * (1 - (A + B * e) / 2)
    - 2 * sqrt (k * e * ((1 - (A + B * e) / 2) * (1 - (A * e + B) / 2)))
  <= 2 * delta * ((1 - (A + B * e) / 2) * (1 - (A * e + B) / 2)).

Lemma closed_is_bound : forall b l u s eps delta a, 0 < b ->
  bound (exp (- s / b)) (exp eps) delta (past b (from_lower l a)) (past b (to_upper u (a + s))) ->
  closed_form b l u s eps delta a.
Proof.
  intros b l u s eps delta a Hb H. unfold closed_form, mass. rewrite (shifted_lower b l a s Hb).
  assert (E : past b (to_upper u a) = past b (to_upper u (a + s)) * exp (- s / b)).
  { rewrite (shifted_upper b u a s Hb). assert (P := exp_pos (- s / b)). field. lra. }
  rewrite E. unfold bound in H. exact H.
Qed.

(** On an interval A B is the same everywhere. *)
Section Places.
Variables (b l u first last s eps delta : R).
Hypothesis Hb : 0 < b.
Let e := exp (- s / b).
Let g := exp (- (u - l - s) / b).

Lemma places : forall a, first <= a <= last - s ->
  (exp (- (last - s - l) / b) <= exp (- (a - l) / b) <= exp (- (first - l) / b)) /\
  (0 < exp (- (u - (a + s)) / b) <= exp (- (u - last) / b)) /\ exp (- (a - l) / b) * exp (- (u - (a + s)) / b) = g.
Proof.
  intros a Ha. assert (I := div_pos b Hb). repeat split.
  - apply exp_le. unfold Rdiv. apply Rmult_le_compat_r; lra.
  - apply exp_le. unfold Rdiv. apply Rmult_le_compat_r; lra.
  - apply exp_pos.
  - apply exp_le. unfold Rdiv. apply Rmult_le_compat_r; lra.
  - unfold g. rewrite <- exp_plus. f_equal. unfold Rdiv. ring.
Qed.

Lemma by_curve : (forall A, exp (- (last - s - l) / b) <= A <= exp (- (first - l) / b) -> bound e (exp eps) delta A (g / A)) ->
  forall a, first <= a <= last - s -> closed_form b (Some l) (Some u) s eps delta a.
Proof.
  intros H a Ha. apply closed_is_bound; [assumption|]. unfold past, from_lower, to_upper.
  destruct (places a Ha) as [P [_ E]]. assert (K := H _ P). rewrite <- E in K.
  replace (exp (- (a - l) / b) * exp (- (u - (a + s)) / b) / exp (- (a - l) / b)) with (exp (- (u - (a + s)) / b)) in K;
    [exact K|]. assert (Q := exp_pos (- (a - l) / b)). field. lra.
Qed.

Lemma by_boxes : forall t, 0 < t ->
  (forall A B, t <= A <= exp (- (first - l) / b) -> 0 <= B <= g / t -> bound e (exp eps) delta A B) ->
  (forall A B, 0 <= A <= g / t -> t <= B <= exp (- (u - last) / b) -> bound e (exp eps) delta A B) ->
  (forall A B, 0 <= A <= t -> 0 <= B <= t -> bound e (exp eps) delta A B) ->
  forall a, first <= a <= last - s -> closed_form b (Some l) (Some u) s eps delta a.
Proof.
  intros t Ht H1 H2 H3 a Ha. apply closed_is_bound; [assumption|]. unfold past, from_lower, to_upper.
  destruct (places a Ha) as [P [Q E]]. set (A := exp (- (a - l) / b)) in *. set (B := exp (- (u - (a + s)) / b)) in *.
  assert (PA : 0 < A) by apply exp_pos. assert (I := div_pos t Ht).
  destruct (Rle_dec t A) as [L|L]; [|destruct (Rle_dec t B) as [N|N]].
  - apply H1; [lra|]. split; [lra|]. apply Rmult_le_reg_r with t; [assumption|]. replace (g / t * t) with g by (field; lra). nra.
  - apply H2; [|lra]. split; [lra|]. apply Rmult_le_reg_r with t; [assumption|]. replace (g / t * t) with g by (field; lra). nra.
  - apply H3; lra.
Qed.
End Places.

Lemma above_a_lower_end : forall b l first last s eps delta, 0 < b ->
  (forall A, 0 <= A <= exp (- (first - l) / b) -> bound (exp (- s / b)) (exp eps) delta A 0) ->
  forall a, first <= a <= last - s -> closed_form b (Some l) None s eps delta a.
Proof.
  intros b l first last s eps delta Hb H a Ha. apply closed_is_bound; [assumption|]. unfold past, from_lower, to_upper. apply H.
  assert (I := div_pos b Hb). split; [left; apply exp_pos | apply exp_le; unfold Rdiv; apply Rmult_le_compat_r; lra].
Qed.

Lemma below_an_upper_end : forall b u first last s eps delta, 0 < b ->
  (forall B, 0 <= B <= exp (- (u - last) / b) -> bound (exp (- s / b)) (exp eps) delta 0 B) ->
  forall a, first <= a <= last - s -> closed_form b None (Some u) s eps delta a.
Proof.
  intros b u first last s eps delta Hb H a Ha. apply closed_is_bound; [assumption|]. unfold past, from_lower, to_upper. apply H.
  assert (I := div_pos b Hb). split; [left; apply exp_pos | apply exp_le; unfold Rdiv; apply Rmult_le_compat_r; lra].
Qed.

(** Where the range lies in the middle of the support, one direction is the other. *)
Lemma in_the_middle : forall b l u first last s eps delta, first - l = u - last ->
  (forall a, first <= a <= last - s -> closed_form b (Some l) (Some u) s eps delta a) ->
  forall a, - last <= a <= - first - s -> closed_form b (option_map Ropp (Some u)) (option_map Ropp (Some l)) s eps delta a.
Proof.
  intros b l u first last s eps delta Hm H a Ha. assert (K := H (a + (l + u)) ltac:(lra)). unfold closed_form, mass, past, from_lower, to_upper, option_map in *.
  replace (a - - u) with (a + (l + u) - l) by ring. replace (- l - a) with (u - (a + (l + u))) by ring.
  replace (a + s - - u) with (a + (l + u) + s - l) by ring. replace (- l - (a + s)) with (u - (a + (l + u) + s)) by ring. exact K.
Qed.

(** What Interval computes. *)
Ltac within := unfold bound; intros; apply Rminus_le.
