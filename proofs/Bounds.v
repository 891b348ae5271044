(** Bounds in whole numbers, which [vm_compute] finds, of what has fractions, exp, and the integral of the bell. *)
From Coq Require Import Reals ZArith QArith Qreals Lra Lia Psatz.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy Bell.
Open Scope R_scope.

(** A function that vanishes at zero and rises is not negative. *)
Lemma rises : forall (f df : R -> R) b, f 0 = 0 -> (forall y, 0 <= y <= b -> is_derive f y (df y)) ->
  (forall y, 0 <= y <= b -> 0 <= df y) -> forall y, 0 <= y <= b -> 0 <= f y.
Proof.
  intros f df b H0 D P y Hy. destruct (MVT_gen f 0 y df) as [c [Hc E]].
  - intros x Hx. rewrite Rmin_left, Rmax_right in Hx by lra. apply D. lra.
  - intros x Hx. rewrite Rmin_left, Rmax_right in Hx by lra. apply derivable_continuous_pt. exists (df x).
    apply is_derive_Reals, D. lra.
  - rewrite Rmin_left, Rmax_right in Hc by lra. assert (Q := P c ltac:(lra)). rewrite H0 in E. nra.
Qed.

(** The first terms of the series of exp, and that with r in the place of the rest. *)
Fixpoint terms (n : nat) (y : R) : R := match n with O => 0 | S m => terms m y + y ^ m / INR (fact m) end.
Definition series (n : nat) (r y : R) : R := terms n y + y ^ n / INR (fact n) * r.

Lemma series_next : forall n r y, series n (1 + y / INR (S n) * r) y = series (S n) r y.
Proof.
  intros. unfold series. cbn [terms]. rewrite fact_simpl, mult_INR. rewrite <- tech_pow_Rmult. field.
  split; [apply INR_fact_neq_0 | apply not_0_INR; lia].
Qed.

Lemma power_derive : forall n r y, is_derive (fun z => z ^ S n / INR (fact (S n)) * r) y (y ^ n / INR (fact n) * r).
Proof.
  intros. rewrite fact_simpl, mult_INR. set (c := INR (fact n)). set (d := INR (S n)).
  assert (c <> 0) by apply INR_fact_neq_0. assert (d <> 0) by (apply not_0_INR; lia).
  evar_last; [auto_derive; [trivial | reflexivity] |]. change (match n with O => 1 | S _ => INR n + 1 end) with d. field. now split.
Qed.

Lemma terms_derive : forall n y, is_derive (terms (S n)) y (terms n y).
Proof.
  induction n as [|n IH]; intro y.
  - apply (is_derive_ext (fun _ => 0 + 1 / 1)); [intro; simpl; reflexivity | apply @is_derive_const].
  - change (is_derive (fun z => plus (terms (S n) z) (z ^ S n / INR (fact (S n)))) y (plus (terms n y) (y ^ n / INR (fact n)))).
    apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule)); [apply IH|].
    rewrite <- (Rmult_1_r (y ^ n / INR (fact n))).
    apply is_derive_ext with (fun z => z ^ S n / INR (fact (S n)) * 1); [intro; apply Rmult_1_r | apply power_derive].
Qed.

Lemma series_derive : forall n r y, is_derive (series (S n) r) y (series n r y).
Proof.
  intros. unfold series.
  apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule) (terms (S n)) (fun z => z ^ S n / INR (fact (S n)) * r));
    [apply terms_derive|].
  apply power_derive.
Qed.

Lemma terms_zero : forall n, terms (S n) 0 = 1.
Proof.
  induction n as [|n IH]; [simpl; field|].
  change (terms (S n) 0 + 0 ^ S n / INR (fact (S n)) = 1). rewrite IH, pow_ne_zero by lia. unfold Rdiv. ring.
Qed.

Lemma series_zero : forall n r, series (S n) r 0 = 1.
Proof. intros. unfold series. rewrite terms_zero, pow_ne_zero by lia. unfold Rdiv. ring. Qed.

Lemma exp_near : forall y, 0 <= y <= 1 / 2 -> 1 <= exp y <= 2.
Proof.
  intros y H. split; [apply exp_ge_1; lra|].
  assert (A := exp_ineq1_le (- y)). assert (E : exp y * exp (- y) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  assert (0 < exp y) by apply exp_pos. nra.
Qed.

Lemma exp_series : forall n y, 0 <= y <= 1 / 2 -> series n 1 y <= exp y <= series n 2 y.
Proof.
  induction n as [|n IH]; intros y Hy.
  - unfold series. simpl. assert (E := exp_near y Hy). lra.
  - split.
    + enough (0 <= exp y - series (S n) 1 y) by lra.
      apply (rises (fun z => exp z - series (S n) 1 z) (fun z => exp z - series n 1 z) (1 / 2)); [..|assumption].
      * rewrite exp_0, series_zero. ring.
      * intros z _. apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule)); [|apply series_derive].
        apply is_derive_Reals, derivable_pt_lim_exp.
      * intros z Hz. specialize (IH z Hz). lra.
    + enough (0 <= series (S n) 2 y - exp y) by lra.
      apply (rises (fun z => series (S n) 2 z - exp z) (fun z => series n 2 z - exp z) (1 / 2)); [..|assumption].
      * rewrite exp_0, series_zero. ring.
      * intros z _. apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule)); [apply series_derive|].
        apply is_derive_Reals, derivable_pt_lim_exp.
      * intros z Hz. specialize (IH z Hz). lra.
Qed.

(** The series of the bell's integral times exp(y^2 / 2): y + y^3 / 3 + y^5 / (3 5) + ... *)
Fixpoint odds (n : nat) : R := match n with O => 1 | S m => odds m * (2 * INR m + 3) end.
Fixpoint areas (n : nat) (y : R) : R := match n with O => 0 | S m => areas m y + y ^ (2 * m + 1) / odds m end.
Definition rest (n : nat) (r y : R) : R := areas n y + y ^ (2 * n + 1) / odds n * r.

Lemma odds_pos : forall n, 0 < odds n.
Proof. induction n; simpl; [lra|]. assert (0 <= INR n) by apply pos_INR. apply Rmult_lt_0_compat; lra. Qed.

Lemma rest_next : forall n r y, rest n (1 + y ^ 2 / (2 * INR n + 3) * r) y = rest (S n) r y.
Proof.
  intros. unfold rest. cbn [areas odds]. assert (P := odds_pos n). assert (0 <= INR n) by apply pos_INR.
  replace (2 * S n + 1)%nat with (S (S (2 * n + 1))) by lia. rewrite <- !tech_pow_Rmult. field. lra.
Qed.

Lemma odd_power_derive : forall n y, is_derive (fun z => z ^ (2 * S n + 1) / odds (S n)) y (y ^ (2 * n + 2) / odds n).
Proof.
  intros. replace (2 * S n + 1)%nat with (S (2 * n + 2)) by lia. cbn [odds].
  assert (D : INR (S (2 * n + 2)) = 2 * INR n + 3) by (rewrite S_INR, plus_INR, mult_INR; simpl; ring).
  set (m := (2 * n + 2)%nat) in *. assert (P := odds_pos n). assert (0 <= INR n) by apply pos_INR. rewrite <- D.
  assert (INR (S m) <> 0) by lra. set (d := INR (S m)) in *. set (c := odds n) in *. clearbody c.
  evar_last; [auto_derive; [trivial | reflexivity] |]. change (match m with O => 1 | S _ => INR m + 1 end) with d.
  field. split; lra.
Qed.

Lemma areas_derive : forall n y, is_derive (areas (S n)) y (1 + y * areas n y).
Proof.
  induction n as [|n IH]; intro y.
  - apply (is_derive_ext (fun z => 0 + z ^ 1 / 1)); [intro; reflexivity|]. auto_derive; [trivial | simpl; field].
  - change (is_derive (fun z => plus (areas (S n) z) (z ^ (2 * S n + 1) / odds (S n))) y (1 + y * areas (S n) y)).
    replace (1 + y * areas (S n) y) with (plus (1 + y * areas n y) (y ^ (2 * n + 2) / odds n)).
    + apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule)); [apply IH|].
      apply odd_power_derive.
    + cbn [areas]. unfold plus; simpl. replace (n + (n + 0) + 2)%nat with (S (n + (n + 0) + 1)) by lia.
      simpl pow. assert (P := odds_pos n). field. lra.
Qed.

Lemma area_derive : forall y, is_derive (fun z => RInt bell 0 z) y (bell y).
Proof.
  intro y. apply (is_derive_RInt (V := R_NormedModule) bell _ 0); [|apply continuous_bell].
  exists (mkposreal 1 Rlt_0_1). intros z _. apply (RInt_correct (V := R_CompleteNormedModule)), integrable.
Qed.

Lemma area_zero : RInt bell 0 0 = 0.
Proof. rewrite (RInt_point (V := R_CompleteNormedModule)). reflexivity. Qed.

Lemma areas_zero : forall n, areas n 0 = 0.
Proof. induction n; simpl; [reflexivity|]. rewrite IHn, pow_ne_zero by lia. lra. Qed.

Lemma bell_areas_derive : forall n y, is_derive (fun z => bell z * areas (S n) z) y (bell y * (1 - y ^ (2 * n + 2) / odds n)).
Proof.
  intros. assert (D := areas_derive n y).
  assert (B : is_derive bell y (- y * bell y)) by (unfold bell; auto_derive; [trivial | unfold Rdiv; simpl; field]).
  assert (M := is_derive_mult bell (areas (S n)) y _ _ B D Rmult_comm). unfold plus, mult in M; simpl in M.
  replace (bell y * (1 - y ^ (2 * n + 2) / odds n)) with (- y * bell y * areas (S n) y + bell y * (1 + y * areas n y)); [exact M|].
  cbn [areas]. replace (2 * n + 2)%nat with (S (2 * n + 1)) by lia. rewrite <- tech_pow_Rmult. assert (P := odds_pos n). field. lra.
Qed.

Lemma even_power : forall n y, 0 <= y ^ (2 * n + 2).
Proof. intros. replace (2 * n + 2)%nat with (2 * (n + 1))%nat by lia. rewrite pow_mult. apply pow_le, pow2_ge_0. Qed.

Lemma area_series : forall n y, 0 <= y ->
  rest (S n) 0 y <= exp (y ^ 2 / 2) * RInt bell 0 y <= rest (S n) (exp (y ^ 2 / 2)) y.
Proof.
  intros n y Hy.
  assert (E : exp (y ^ 2 / 2) * bell y = 1) by (unfold bell; rewrite <- exp_plus, <- exp_0; f_equal; field).
  assert (X : 0 < exp (y ^ 2 / 2)) by apply exp_pos. assert (P := odds_pos n). assert (N : 0 <= INR n) by apply pos_INR.
  assert (L : 0 <= RInt bell 0 y - bell y * areas (S n) y).
  { apply (rises (fun z => RInt bell 0 z - bell z * areas (S n) z) (fun z => bell z * (z ^ (2 * n + 2) / odds n)) y); [..|lra].
    - rewrite area_zero, areas_zero. ring.
    - intros z _. replace (bell z * (z ^ (2 * n + 2) / odds n)) with (minus (bell z) (bell z * (1 - z ^ (2 * n + 2) / odds n)))
        by (unfold minus, plus, opp; simpl; ring).
      apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule)); [apply area_derive | apply bell_areas_derive].
    - intros z _. apply Rmult_le_pos; [left; apply exp_pos|]. apply Rdiv_le_0_compat; [apply even_power | assumption]. }
  assert (U : 0 <= bell y * areas (S n) y + y ^ (2 * S n + 1) / odds (S n) - RInt bell 0 y).
  { apply (rises (fun z => bell z * areas (S n) z + z ^ (2 * S n + 1) / odds (S n) - RInt bell 0 z)
      (fun z => (1 - bell z) * (z ^ (2 * n + 2) / odds n)) y); [..|lra].
    - rewrite area_zero, areas_zero, pow_ne_zero by lia. lra.
    - intros z _. replace ((1 - bell z) * (z ^ (2 * n + 2) / odds n))
        with (minus (plus (bell z * (1 - z ^ (2 * n + 2) / odds n)) (z ^ (2 * n + 2) / odds n)) (bell z))
        by (unfold minus, plus, opp; simpl; ring).
      apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule)); [|apply area_derive].
      apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule)); [apply bell_areas_derive|].
      apply odd_power_derive.
    - intros z _. apply Rmult_le_pos; [assert (B := bell_le_1 z); lra|]. apply Rdiv_le_0_compat; [apply even_power | assumption]. }
  unfold rest. set (r := y ^ (2 * S n + 1) / odds (S n)) in *. set (a := areas (S n) y) in *. set (i := RInt bell 0 y) in *.
  set (x := exp (y ^ 2 / 2)) in *. set (b := bell y) in *.
  assert (L' := Rmult_le_pos _ _ (Rlt_le _ _ X) L). assert (U' := Rmult_le_pos _ _ (Rlt_le _ _ X) U).
  replace (x * (i - b * a)) with (x * i - x * b * a) in L' by ring.
  replace (x * (b * a + r - i)) with (x * b * a + x * r - x * i) in U' by ring. rewrite E in L', U'. lra.
Qed.

(** Numbers of the form n / 2^p, and what is known of a real number: two of them around it. *)
Section Fixed.
Variable p : positive.
Definition one : Z := Z.shiftl 1 (Zpos p).
Definition down (n : Z) : Z := Z.shiftr n (Zpos p).
Definition up (n : Z) : Z := (Z.shiftr n (Zpos p) + 1)%Z.
Definition at_least (n : Z) (x : R) : Prop := IZR n <= x * IZR one.
Definition at_most (n : Z) (x : R) : Prop := x * IZR one <= IZR n.

Lemma one_pos : (0 < one)%Z.
Proof. unfold one. rewrite Z.shiftl_1_l. apply Z.pow_pos_nonneg; lia. Qed.

Lemma one_pos' : 0 < IZR one.
Proof. apply IZR_lt, one_pos. Qed.

Lemma down_one : forall n, down n = (n / one)%Z.
Proof. intro. unfold down, one. rewrite Z.shiftl_1_l. apply Z.shiftr_div_pow2. lia. Qed.

Lemma div_low : forall n d, (0 < d)%Z -> IZR (n / d) * IZR d <= IZR n.
Proof. intros. rewrite <- mult_IZR. apply IZR_le. rewrite Z.mul_comm. now apply Z.mul_div_le. Qed.

Lemma div_high : forall n d, (0 < d)%Z -> IZR n <= IZR (n / d + 1) * IZR d.
Proof. intros. rewrite <- mult_IZR. apply IZR_le. assert (M := Z.mod_pos_bound n d H). assert (D := Z.div_mod n d ltac:(lia)). lia. Qed.

Lemma down_low : forall n, IZR (down n) * IZR one <= IZR n.
Proof. intro. rewrite down_one. apply div_low, one_pos. Qed.

Lemma up_high : forall n, IZR n <= IZR (up n) * IZR one.
Proof. intro. change (up n) with (down n + 1)%Z. rewrite down_one. apply div_high, one_pos. Qed.

Lemma times_low : forall a b x y, at_least a x -> at_least b y -> (0 <= a)%Z -> (0 <= b)%Z -> at_least (down (a * b)) (x * y).
Proof.
  unfold at_least. intros a b x y Ha Hb A B. assert (D := down_low (a * b)). assert (P := one_pos').
  apply IZR_le in A, B. rewrite mult_IZR in D. apply Rmult_le_reg_r with (IZR one); [assumption|].
  apply Rle_trans with (1 := D). replace (x * y * IZR one * IZR one) with (x * IZR one * (y * IZR one)) by ring.
  apply Rmult_le_compat; lra.
Qed.

Lemma times_high : forall a b x y, at_most a x -> at_most b y -> 0 <= x -> 0 <= y -> at_most (up (a * b)) (x * y).
Proof.
  unfold at_most. intros a b x y Ha Hb A B. assert (D := up_high (a * b)). assert (P := one_pos').
  rewrite mult_IZR in D. apply Rmult_le_reg_r with (IZR one); [assumption|].
  apply Rle_trans with (2 := D). replace (x * y * IZR one * IZR one) with (x * IZR one * (y * IZR one)) by ring.
  apply Rmult_le_compat; try assumption; apply Rmult_le_pos; lra.
Qed.

Lemma down_pos : forall n, (0 <= n)%Z -> (0 <= down n)%Z.
Proof. intros. rewrite down_one. apply Z.div_pos; [assumption | apply one_pos]. Qed.

(** Horner's rule for a series in y: the k-th factor is 1 + y / d k, from the n-th inwards. *)
Fixpoint low (n : nat) (d : nat -> Z) (y acc : Z) : Z :=
  match n with O => acc | S m => low m d y (one + down (y * acc) / d m)%Z end.
Fixpoint high (n : nat) (d : nat -> Z) (y acc : Z) : Z :=
  match n with O => acc | S m => high m d y (one + (up (y * acc) / d m + 1))%Z end.

Section Horner.
Variables (d : nat -> Z) (f : nat -> R -> R) (y : R).
Hypothesis Hd : forall m, (0 < d m)%Z.
Hypothesis next : forall m r, f m (1 + y / IZR (d m) * r) = f (S m) r.

Lemma step_low : forall m a r v, (0 <= v)%Z -> (0 <= a)%Z -> at_least v y -> at_least a r ->
  at_least (one + down (v * a) / d m) (1 + y / IZR (d m) * r).
Proof.
  intros m a r v Hv Ha V A. assert (T := times_low v a y r V A Hv Ha). unfold at_least in *.
  assert (D := div_low (down (v * a)) (d m) (Hd m)). assert (P := IZR_lt _ _ (Hd m)). rewrite plus_IZR.
  apply Rmult_le_reg_r with (IZR (d m)); [assumption|].
  replace ((1 + y / IZR (d m) * r) * IZR one * IZR (d m)) with (IZR one * IZR (d m) + y * r * IZR one) by (field; lra). lra.
Qed.

Lemma low_is_low : forall n a r v, (0 <= v)%Z -> (0 <= a)%Z -> at_least v y -> at_least a r ->
  exists r', at_least (low n d v a) r' /\ f 0%nat r' = f n r /\ (0 <= low n d v a)%Z.
Proof.
  induction n as [|n IH]; intros a r v Hv Ha V A; simpl; [now exists r|].
  assert (Q : (0 <= one + down (v * a) / d n)%Z).
  { assert (P := one_pos). assert (0 <= down (v * a) / d n)%Z by (apply Z.div_pos; [apply down_pos; nia | apply Hd]). lia. }
  destruct (IH _ _ v Hv Q V (step_low n a r v Hv Ha V A)) as [r' [H [E K]]]. exists r'. rewrite E, next. now repeat split.
Qed.

Lemma high_is_high : forall n a r v, 0 <= y -> 0 <= r -> at_most v y -> at_most a r ->
  exists r', at_most (high n d v a) r' /\ f 0%nat r' = f n r /\ 0 <= r'.
Proof.
  induction n as [|n IH]; intros a r v Hy Hr V A; simpl; [now exists r|]. assert (P := IZR_lt _ _ (Hd n)).
  assert (K : 0 <= y / IZR (d n) * r) by (apply Rmult_le_pos; [now apply Rdiv_le_0_compat | assumption]).
  assert (B : at_most (one + (up (v * a) / d n + 1)) (1 + y / IZR (d n) * r)).
  { assert (T := times_high v a y r V A Hy Hr). unfold at_most in *. assert (D := div_high (up (v * a)) (d n) (Hd n)).
    rewrite plus_IZR. apply Rmult_le_reg_r with (IZR (d n)); [assumption|].
    replace ((1 + y / IZR (d n) * r) * IZR one * IZR (d n)) with (IZR one * IZR (d n) + y * r * IZR one) by (field; lra). lra. }
  destruct (IH _ _ v Hy ltac:(apply Rplus_le_le_0_compat; [left; apply Rlt_0_1 | exact K]) V B) as [r' [H [E Q]]]. exists r'. rewrite E, next. now repeat split.
Qed.
End Horner.

(** exp of a number from 0 to 128: of a 2^10-th of it, squared ten times. *)
Definition by_factorial (m : nat) : Z := Z.of_nat (S m).
Definition count : nat := Z.to_nat (Zpos p / 6 + 4)%Z.
Fixpoint squares (k : nat) (round : Z -> Z) (a : Z) : Z := match k with O => a | S k => squares k round (round (a * a)%Z) end.
Definition exp_low (t : Z) : Z := squares 10 down (low count by_factorial (Z.shiftr t 10) one).
Definition exp_high (t : Z) : Z := squares 10 up (high count by_factorial (Z.shiftr t 10 + 1)%Z (2 * one)).
Definition fits (t : Z) : bool := (Z.shiftr t 10 + 1 <=? Z.shiftr one 1)%Z.

Lemma squares_low : forall k a x, (0 <= a)%Z -> at_least a x -> at_least (squares k down a) (x ^ (2 ^ k)).
Proof.
  induction k as [|k IH]; intros a x Ha H; simpl squares; [now rewrite pow_1|].
  replace (2 ^ S k)%nat with (2 * 2 ^ k)%nat by reflexivity. rewrite pow_mult. apply IH.
  - apply down_pos. nia.
  - replace (x ^ 2) with (x * x) by ring. now apply times_low.
Qed.

Lemma squares_high : forall k a x, 0 <= x -> at_most a x -> at_most (squares k up a) (x ^ (2 ^ k)).
Proof.
  induction k as [|k IH]; intros a x Ha H; simpl squares; [now rewrite pow_1|].
  replace (2 ^ S k)%nat with (2 * 2 ^ k)%nat by reflexivity. rewrite pow_mult. apply IH.
  - apply pow2_ge_0.
  - replace (x ^ 2) with (x * x) by ring. now apply times_high.
Qed.

Lemma series_0 : forall r y, series 0 r y = r.
Proof. intros. unfold series. simpl. field. Qed.

Lemma next_term : forall y m r, series m (1 + y / IZR (by_factorial m) * r) y = series (S m) r y.
Proof. intros. unfold by_factorial. rewrite <- INR_IZR_INZ. apply series_next. Qed.

Lemma power_exp : forall y, exp (y / 1024) ^ (2 ^ 10) = exp y.
Proof.
  intro. rewrite <- Rpower_pow by apply exp_pos. unfold Rpower. rewrite ln_exp. f_equal. rewrite pow_INR. simpl INR. field.
Qed.

Lemma shifted : forall t, at_least (Z.shiftr t 10) (IZR t / IZR one / 1024) /\ at_most (Z.shiftr t 10 + 1) (IZR t / IZR one / 1024).
Proof.
  intro. assert (P := one_pos'). unfold at_least, at_most. rewrite Z.shiftr_div_pow2 by lia. change (2 ^ 10)%Z with 1024%Z.
  assert (A := div_low t 1024 ltac:(lia)). assert (B := div_high t 1024 ltac:(lia)).
  replace (IZR t / IZR one / 1024 * IZR one) with (IZR t / 1024) by (field; lra). lra.
Qed.

Lemma exp_low_ok : forall t, (0 <= t)%Z -> fits t = true -> at_least (exp_low t) (exp (IZR t / IZR one)).
Proof.
  intros t Ht F. destruct (shifted t) as [A B]. set (y := IZR t / IZR one / 1024) in *.
  assert (P := one_pos'). assert (Y : 0 <= y).
  { unfold y. apply Rdiv_le_0_compat; [|lra]. apply Rdiv_le_0_compat; [now apply IZR_le | assumption]. }
  assert (Y' : y <= 1 / 2).
  { unfold fits in F. apply Z.leb_le, IZR_le in F. unfold at_most in B. rewrite (Z.shiftr_div_pow2 one) in F by lia.
    assert (D := div_low one 2 ltac:(lia)). change (2 ^ 1)%Z with 2%Z in F. nra. }
  unfold exp_low. rewrite <- power_exp. fold y.
  destruct (low_is_low by_factorial (fun m r => series m r y) y) with (n := count) (a := one) (r := 1) (v := Z.shiftr t 10)
    as [r [H [E Q]]]; try assumption.
  - intro. unfold by_factorial. lia.
  - intros. apply next_term.
  - rewrite Z.shiftr_div_pow2 by lia. apply Z.div_pos; lia.
  - assert (Q := one_pos). lia.
  - unfold at_least. lra.
  - rewrite series_0 in E. apply squares_low; [assumption|].
    assert (S := proj1 (exp_series count y (conj Y Y'))). unfold at_least in *. nra.
Qed.

Lemma exp_high_ok : forall t, (0 <= t)%Z -> fits t = true -> at_most (exp_high t) (exp (IZR t / IZR one)).
Proof.
  intros t Ht F. destruct (shifted t) as [A B]. set (y := IZR t / IZR one / 1024) in *.
  assert (P := one_pos'). assert (Y : 0 <= y).
  { unfold y. apply Rdiv_le_0_compat; [|lra]. apply Rdiv_le_0_compat; [now apply IZR_le | assumption]. }
  assert (Y' : y <= 1 / 2).
  { unfold fits in F. apply Z.leb_le, IZR_le in F. unfold at_most in B. rewrite (Z.shiftr_div_pow2 one) in F by lia.
    assert (D := div_low one 2 ltac:(lia)). change (2 ^ 1)%Z with 2%Z in F. nra. }
  unfold exp_high. rewrite <- power_exp. fold y.
  destruct (high_is_high by_factorial (fun m r => series m r y) y) with (n := count) (a := (2 * one)%Z) (r := 2) (v := (Z.shiftr t 10 + 1)%Z)
    as [r [H [E Q]]]; try assumption.
  - intro. unfold by_factorial. lia.
  - intros. apply next_term.
  - lra.
  - unfold at_most. rewrite mult_IZR. lra.
  - rewrite series_0 in E. apply squares_high; [left; apply exp_pos|].
    assert (S := proj2 (exp_series count y (conj Y Y'))). unfold at_most in *. nra.
Qed.

Definition around (b : option (Z * Z)) (x : R) : Prop := forall l h, b = Some (l, h) -> at_least l x /\ at_most h x.

Lemma inverse_low : forall h x, (0 < h)%Z -> 0 < x -> at_most h x -> at_least (one * one / h) (/ x).
Proof.
  unfold at_least, at_most. intros h x Hh Hx H. assert (D := div_low (one * one) h Hh). rewrite mult_IZR in D.
  assert (P := one_pos'). apply IZR_lt in Hh. set (q := IZR (one * one / h)) in *.
  apply Rmult_le_reg_r with (x * IZR one); [now apply Rmult_lt_0_compat|].
  replace (/ x * IZR one * (x * IZR one)) with (IZR one * IZR one) by (field; lra).
  destruct (Rle_dec 0 q); [nra|]. assert (0 < IZR one * IZR one) by nra. assert (0 < x * IZR one) by nra. nra.
Qed.

Lemma inverse_high : forall l x, (0 < l)%Z -> at_least l x -> at_most (one * one / l + 1) (/ x).
Proof.
  unfold at_least, at_most. intros l x Hl H. assert (D := div_high (one * one) l Hl). rewrite mult_IZR in D.
  assert (P := one_pos'). apply IZR_lt in Hl. set (q := IZR (one * one / l + 1)) in *.
  assert (X : 0 < x) by (apply Rmult_lt_reg_r with (IZR one); lra).
  apply Rmult_le_reg_r with (x * IZR one); [now apply Rmult_lt_0_compat|].
  replace (/ x * IZR one * (x * IZR one)) with (IZR one * IZR one) by (field; lra).
  assert (0 <= q) by (apply Rmult_le_reg_r with (IZR l); nra). nra.
Qed.

(** exp at one number. *)
Definition far : Z := (256 * one)%Z.
Definition nearer (t : Z) : Z := Z.min (- t) far.
Definition exp_below (t : Z) : option Z :=
  if (0 <=? t)%Z then if fits t then Some (exp_low t) else None
  else if fits (nearer t) then let h := exp_high (nearer t) in
    if (0 <? h)%Z then Some (if (- t <=? far)%Z then one * one / h else 0)%Z else None else None.
Definition exp_above (t : Z) : option Z :=
  if (0 <=? t)%Z then if fits t then Some (exp_high t) else None
  else if fits (nearer t) then let l := exp_low (nearer t) in
    if (0 <? l)%Z then Some (one * one / l + 1)%Z else None else None.

Lemma value_rises : forall s t, (s <= t)%Z -> IZR s / IZR one <= IZR t / IZR one.
Proof. intros. assert (P := one_pos'). apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | now apply IZR_le]. Qed.

Lemma nearer_pos : forall t, (t < 0)%Z -> (0 <= nearer t)%Z.
Proof. intros. unfold nearer, far. assert (Q := one_pos). lia. Qed.

Lemma exp_below_ok : forall t l, exp_below t = Some l -> at_least l (exp (IZR t / IZR one)).
Proof.
  intros t l. unfold exp_below. destruct (0 <=? t)%Z eqn:S.
  - apply Z.leb_le in S. destruct (fits t) eqn:F; [|discriminate]. intro E. injection E as <-. now apply exp_low_ok.
  - apply Z.leb_gt in S. cbv zeta. destruct (fits (nearer t)) eqn:F; [|discriminate].
    destruct (0 <? exp_high (nearer t))%Z eqn:H; [|discriminate]. intro E. injection E as <-. apply Z.ltb_lt in H.
    assert (P := one_pos'). assert (B := exp_high_ok _ (nearer_pos t S) F). destruct (- t <=? far)%Z eqn:C.
    + apply Z.leb_le in C. assert (E : nearer t = (- t)%Z) by (unfold nearer; lia). rewrite E in *.
      replace (exp (IZR t / IZR one)) with (/ exp (IZR (- t) / IZR one)).
      * apply inverse_low; [assumption | apply exp_pos | assumption].
      * rewrite <- exp_Ropp. f_equal. rewrite opp_IZR. field. lra.
    + unfold at_least. assert (0 < exp (IZR t / IZR one)) by apply exp_pos. nra.
Qed.

Lemma exp_above_ok : forall t h, exp_above t = Some h -> at_most h (exp (IZR t / IZR one)).
Proof.
  intros t h. unfold exp_above. destruct (0 <=? t)%Z eqn:S.
  - apply Z.leb_le in S. destruct (fits t) eqn:F; [|discriminate]. intro E. injection E as <-. now apply exp_high_ok.
  - apply Z.leb_gt in S. cbv zeta. destruct (fits (nearer t)) eqn:F; [|discriminate].
    destruct (0 <? exp_low (nearer t))%Z eqn:L; [|discriminate]. intro E. injection E as <-. apply Z.ltb_lt in L.
    assert (P := one_pos'). assert (A := exp_low_ok _ (nearer_pos t S) F).
    assert (M : exp (IZR t / IZR one) <= / exp (IZR (nearer t) / IZR one)).
    { rewrite <- exp_Ropp. apply exp_le. replace (- (IZR (nearer t) / IZR one)) with (IZR (- nearer t) / IZR one) by (rewrite opp_IZR; field; lra).
      apply value_rises. unfold nearer. lia. }
    assert (K := inverse_high _ _ L A). unfold at_most in *. nra.
Qed.

(** The bell's integral up to a number from 0 on; from 12 on there is less than exp(-72) to come. *)
Definition by_odd (m : nat) : Z := (2 * Z.of_nat m + 3)%Z.
Definition end_ : Z := (12 * one)%Z.
Definition terms_of (s : Z) : nat := Z.to_nat (Z.shiftr s (Zpos p) * 3 / 2 + Zpos p / 3 + 10).
Definition area_of (t : Z) : option (Z * Z) :=
  let s := down (t * t) in let e := Z.shiftr (t * t) (Zpos p + 1) in let n := terms_of s in
  match exp_below e, exp_above (e + 1) with
  | Some l, Some h =>
    if (0 <? l)%Z then if (0 <? h)%Z then
      Some ((t * low (S n) by_odd s 0 / h)%Z, (t * high (S n) by_odd (s + 1) h / l + 1)%Z) else None else None
  | _, _ => None
  end.

Lemma next_area : forall y m r, rest m (1 + y ^ 2 / IZR (by_odd m) * r) y = rest (S m) r y.
Proof.
  intros. unfold by_odd. rewrite plus_IZR, mult_IZR, <- INR_IZR_INZ. apply rest_next.
Qed.

Lemma area_of_ok : forall t, (0 <= t)%Z -> around (area_of t) (RInt bell 0 (IZR t / IZR one)).
Proof.
  intros t Ht l h. unfold area_of. set (s := down (t * t)). set (e := Z.shiftr (t * t) (Zpos p + 1)).
  set (n := terms_of s).
  destruct (exp_below e) as [a|] eqn:A; [|discriminate]. destruct (exp_above (e + 1)) as [b|] eqn:B; [|discriminate].
  destruct (0 <? a)%Z eqn:Pa; [|discriminate]. destruct (0 <? b)%Z eqn:Pb; [|discriminate].
  apply Z.ltb_lt in Pa, Pb. remember (S n) as m eqn:M. intro E. injection E as <- <-. assert (P := one_pos'). assert (P' := one_pos).
  assert (A' := exp_below_ok _ _ A). assert (B' := exp_above_ok _ _ B). clear A B.
  set (y := IZR t / IZR one) in *. assert (Y : 0 <= y) by (apply Rdiv_le_0_compat; [now apply IZR_le | assumption]).
  assert (Sq : y ^ 2 * IZR one * IZR one = IZR (t * t)) by (unfold y; rewrite mult_IZR; field; lra).
  assert (S0 : at_least s (y ^ 2)).
  { unfold at_least, s. assert (D := down_low (t * t)). apply Rmult_le_reg_r with (IZR one); lra. }
  assert (S1 : at_most (s + 1) (y ^ 2)).
  { unfold at_most. assert (D := up_high (t * t)). change (s + 1)%Z with (up (t * t)). apply Rmult_le_reg_r with (IZR one); lra. }
  assert (Two : (2 ^ (Zpos p + 1) = 2 * one)%Z) by (unfold one; rewrite Z.shiftl_1_l, Z.pow_add_r by lia; lia).
  assert (E0 : IZR e / IZR one <= y ^ 2 / 2).
  { unfold e. rewrite Z.shiftr_div_pow2, Two by lia. assert (D := div_low (t * t) (2 * one) ltac:(lia)). rewrite (mult_IZR 2 one) in D.
    apply Rmult_le_reg_r with (2 * IZR one * IZR one); [nra|].
    match goal with |- ?u / _ * _ <= _ => replace (u / IZR one * (2 * IZR one * IZR one)) with (u * (2 * IZR one)) by (field; lra) end. lra. }
  assert (E1 : y ^ 2 / 2 <= IZR (e + 1) / IZR one).
  { unfold e. rewrite Z.shiftr_div_pow2, Two by lia. assert (D := div_high (t * t) (2 * one) ltac:(lia)). rewrite (mult_IZR 2 one) in D.
    apply Rmult_le_reg_r with (2 * IZR one * IZR one); [nra|].
    match goal with |- _ <= ?u / _ * _ => replace (u / IZR one * (2 * IZR one * IZR one)) with (u * (2 * IZR one)) by (field; lra) end. lra. }
  apply exp_le in E0, E1. set (x := exp (y ^ 2 / 2)) in *. assert (X : 0 < x) by apply exp_pos.
  assert (Xl : at_least a x) by (unfold at_least in *; nra). assert (Xh : at_most b x) by (unfold at_most in *; nra).
  destruct (area_series n y Y) as [G0 G1]. rewrite <- M in *. fold x in G0, G1. set (g := RInt bell 0 y) in *.
  destruct (low_is_low by_odd (fun m r => rest m r y) (y ^ 2)) with (n := m) (a := 0%Z) (r := 0) (v := s) as [r [R0 [R1 R2]]].
  { intro. unfold by_odd. lia. } { intros. apply next_area. } { apply down_pos. nia. } { lia. } { assumption. } { unfold at_least. lra. }
  destruct (high_is_high by_odd (fun m r => rest m r y) (y ^ 2)) with (n := m) (a := b) (r := x) (v := (s + 1)%Z) as [q [Q0 [Q1 Q2]]].
  { intro. unfold by_odd. lia. } { intros. apply next_area. } { apply pow2_ge_0. } { lra. } { assumption. } { assumption. }
  assert (Z0 : forall r, rest 0 r y = y * r) by (intro; unfold rest; simpl; field). rewrite Z0 in R1, Q1. rewrite <- R1 in G0. rewrite <- Q1 in G1.
  assert (T : IZR t = y * IZR one) by (unfold y; field; lra). apply IZR_le in Ht, R2. apply IZR_lt in Pa, Pb.
  assert (Gp : 0 <= g) by (apply integral_pos; assumption).
  set (lo := low m by_odd s 0) in *. set (hi := high m by_odd (s + 1) b) in *. clearbody lo hi. unfold at_least, at_most in *. split.
  - assert (D := div_low (t * lo) b ltac:(now apply lt_IZR)). rewrite mult_IZR in D. set (k := IZR (t * lo / b)) in *. clearbody k.
    apply Rmult_le_reg_r with (IZR b); [assumption|]. apply Rle_trans with (1 := D). rewrite T.
    apply Rle_trans with (y * IZR one * (r * IZR one)); [apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | assumption]|].
    apply Rle_trans with (x * g * IZR one * IZR one); [replace (y * IZR one * (r * IZR one)) with (y * r * IZR one * IZR one) by ring;
      repeat (apply Rmult_le_compat_r; [lra|]); assumption|].
    replace (x * g * IZR one * IZR one) with (g * IZR one * (x * IZR one)) by ring. apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | assumption].
  - assert (D := div_high (t * hi) a ltac:(now apply lt_IZR)). rewrite mult_IZR in D. set (k := IZR (t * hi / a + 1)) in *. clearbody k.
    apply Rmult_le_reg_r with (IZR a); [assumption|]. apply Rle_trans with (2 := D). rewrite T.
    apply Rle_trans with (y * IZR one * (q * IZR one)); [|apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | assumption]].
    apply Rle_trans with (x * g * IZR one * IZR one); [|replace (y * IZR one * (q * IZR one)) with (y * q * IZR one * IZR one) by ring;
      repeat (apply Rmult_le_compat_r; [lra|]); assumption].
    replace (x * g * IZR one * IZR one) with (g * IZR one * (x * IZR one)) by ring. apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | assumption].
Qed.

Definition to_end : option (Z * Z) :=
  match area_of end_, exp_above (- 72 * one) with Some (l, h), Some r => Some (l, (h + r)%Z) | _, _ => None end.
Definition area_from (t : Z) : option (Z * Z) :=
  if (t <=? end_)%Z then area_of t
  else match to_end with Some (l, h) => Some (l, h) | None => None end.
Definition area_at (t : Z) : option (Z * Z) :=
  if (0 <=? t)%Z then area_from t
  else match area_from (- t) with Some (l, h) => Some ((- h)%Z, (- l)%Z) | None => None end.

Lemma end_value : IZR end_ / IZR one = 12.
Proof. unfold end_. assert (P := one_pos'). rewrite mult_IZR. field. lra. Qed.

Lemma area_rises : forall y z, y <= z -> RInt bell 0 y <= RInt bell 0 z.
Proof. intros y z H. rewrite <- (chasles 0 y z). assert (P := integral_pos y z H). lra. Qed.

(** From 12 on, the bell has less than exp(-72) to come; so between the integrals to 12 and to infinity. *)
Lemma to_end_ok : forall x, RInt bell 0 12 <= x <= RInt bell 0 12 + bell 12 / 12 -> around to_end x.
Proof.
  intros x Hx l h. unfold to_end. destruct (area_of end_) as [[a b]|] eqn:A; [|discriminate].
  destruct (exp_above (- 72 * one)) as [d|] eqn:D; [|discriminate]. intro E. injection E as <- <-.
  assert (P := one_pos'). assert (P' := one_pos). destruct (area_of_ok end_ ltac:(unfold end_; lia) _ _ A) as [A0 A1].
  assert (D1 := exp_above_ok _ _ D). rewrite end_value in A0, A1. unfold at_least, at_most in *. rewrite plus_IZR.
  replace (IZR (- 72 * one) / IZR one) with (- (12 ^ 2) / 2) in D1 by (rewrite mult_IZR; field; lra). fold (bell 12) in D1.
  assert (0 < bell 12) by apply exp_pos. nra.
Qed.

Lemma area_from_ok : forall t, (0 <= t)%Z -> around (area_from t) (RInt bell 0 (IZR t / IZR one)).
Proof.
  intros t Ht. unfold area_from. destruct (t <=? end_)%Z eqn:C; [now apply area_of_ok|].
  apply Z.leb_gt, Z.lt_le_incl, value_rises in C. rewrite end_value in C. set (y := IZR t / IZR one) in *. intros l h.
  destruct to_end as [[a b]|] eqn:E; [|discriminate]. intro F. injection F as <- <-. apply (fun H => to_end_ok (RInt bell 0 y) H _ _ E).
  assert (T := tail 12 y ltac:(lra)). rewrite <- (chasles 0 12 y). assert (Q := integral_pos 12 y C). lra.
Qed.

Lemma area_at_ok : forall t, around (area_at t) (RInt bell 0 (IZR t / IZR one)).
Proof.
  intros t l h. unfold area_at. destruct (0 <=? t)%Z eqn:C.
  - apply Z.leb_le in C. now apply area_from_ok.
  - apply Z.leb_gt in C. destruct (area_from (- t)) as [[a b]|] eqn:A; [|discriminate]. intro E. injection E as <- <-.
    destruct (area_from_ok (- t) ltac:(lia) _ _ A) as [A0 A1]. assert (P := one_pos').
    replace (IZR (- t) / IZR one) with (- (IZR t / IZR one)) in * by (rewrite opp_IZR; field; lra). rewrite even in *.
    unfold at_least, at_most in *. rewrite !opp_IZR. lra.
Qed.

(** What is bounded: a fraction as it is, and the rest between two numbers. *)
Inductive term := Number (n : Z) | Add (a b : term) | Opp (a : term) | Mul (a b : term) | Inv (a : term) | Exp (a : term)
  | Area (a : term) | Half.

Fixpoint value (t : term) : R :=
  match t with
  | Number n => IZR n | Add a b => value a + value b | Opp a => - value a | Mul a b => value a * value b
  | Inv a => / value a | Exp a => exp (value a) | Area a => RInt bell 0 (value a) | Half => half
  end.

Fixpoint exact (t : term) : option Q :=
  match t with
  | Number n => Some (n # 1)
  | Add a b => match exact a, exact b with Some x, Some y => Some (x + y)%Q | _, _ => None end
  | Mul a b => match exact a, exact b with Some x, Some y => Some (x * y)%Q | _, _ => None end
  | Opp a => match exact a with Some x => Some (- x)%Q | None => None end
  | Inv a => match exact a with Some x => if (Qnum x =? 0)%Z then None else Some (/ x)%Q | None => None end
  | _ => None
  end.

Lemma exact_ok : forall t q, exact t = Some q -> value t = Q2R q.
Proof.
  induction t; simpl; intros r E; try discriminate;
    try (injection E as <-; unfold Q2R; simpl; field);
    try destruct (exact t1) as [x|]; try destruct (exact t2) as [y|]; try destruct (exact t) as [x|]; try discriminate.
  - injection E as <-. now rewrite Q2R_plus, (IHt1 x), (IHt2 y).
  - injection E as <-. now rewrite Q2R_opp, (IHt x).
  - injection E as <-. now rewrite Q2R_mult, (IHt1 x), (IHt2 y).
  - destruct (Qnum x =? 0)%Z eqn:N; [discriminate|]. injection E as <-. apply Z.eqb_neq in N. rewrite Q2R_inv, (IHt x); trivial.
    intro H. apply N. unfold Qeq in H. simpl in H. lia.
Qed.

Definition of_fraction (q : Q) : Z * Z :=
  let n := (Qnum q * one)%Z in ((n / Zpos (Qden q))%Z, (- (- n / Zpos (Qden q)))%Z).

Definition sum_in (a b : option (Z * Z)) : option (Z * Z) :=
  match a, b with Some (l, h), Some (m, k) => Some ((l + m)%Z, (h + k)%Z) | _, _ => None end.
Definition opposite_in (a : option (Z * Z)) : option (Z * Z) := match a with Some (l, h) => Some ((- h)%Z, (- l)%Z) | None => None end.
Definition product_in (a b : option (Z * Z)) : option (Z * Z) :=
  match a, b with
  | Some (l, h), Some (m, k) =>
    let w := (l * m)%Z in let x := (l * k)%Z in let y := (h * m)%Z in let z := (h * k)%Z in
    Some (down (Z.min (Z.min w x) (Z.min y z)), up (Z.max (Z.max w x) (Z.max y z)))
  | _, _ => None end.
Definition inverse_in (a : option (Z * Z)) : option (Z * Z) :=
  match a with
  | Some (l, h) => if (0 <? l)%Z then if (0 <? h)%Z then Some ((one * one / h)%Z, (one * one / l + 1)%Z) else None else None
  | None => None end.
Definition exp_in (a : option (Z * Z)) : option (Z * Z) :=
  match a with
  | Some (l, h) => match exp_below l, exp_above h with Some x, Some y => Some (x, y) | _, _ => None end
  | None => None end.
Definition area_in (a : option (Z * Z)) : option (Z * Z) :=
  match a with
  | Some (l, h) => match area_at l with Some (x, y) => Some (x, (y + (h - l))%Z) | None => None end
  | None => None end.

Fixpoint enclose (t : term) : option (Z * Z) :=
  match exact t with
  | Some q => Some (of_fraction q)
  | None =>
    match t with
    | Number _ => None
    | Add a b => sum_in (enclose a) (enclose b)
    | Opp a => opposite_in (enclose a)
    | Mul a b => product_in (enclose a) (enclose b)
    | Inv a => inverse_in (enclose a)
    | Exp a => exp_in (enclose a)
    | Area a => area_in (enclose a)
    | Half => to_end
    end
  end.

Lemma of_fraction_ok : forall q, around (Some (of_fraction q)) (Q2R q).
Proof.
  intros q l h E. injection E as <- <-. unfold at_least, at_most, Q2R. set (n := (Qnum q * one)%Z).
  assert (D := IZR_lt 0 _ (Pos2Z.is_pos (Qden q))). assert (A := div_low n _ (Pos2Z.is_pos (Qden q))).
  assert (B := div_low (- n) _ (Pos2Z.is_pos (Qden q))). rewrite !opp_IZR in *.
  assert (N : IZR n = IZR (Qnum q) * IZR one) by apply mult_IZR.
  set (d := IZR (Zpos (Qden q))) in *. split; apply Rmult_le_reg_r with d; try assumption;
    replace (IZR (Qnum q) * / d * IZR one * d) with (IZR n) by (rewrite N; field; lra); lra.
Qed.

Lemma product : forall a b c d x y m k, a <= x <= b -> c <= y <= d ->
  m <= a * c -> m <= a * d -> m <= b * c -> m <= b * d -> a * c <= k -> a * d <= k -> b * c <= k -> b * d <= k -> m <= x * y <= k.
Proof.
  intros. assert (A : m <= a * y <= k) by (destruct (Rle_dec 0 a); nra). assert (B : m <= b * y <= k) by (destruct (Rle_dec 0 b); nra).
  destruct (Rle_dec 0 y); nra.
Qed.

Lemma exp_between : forall l h x a d, at_least l x -> at_most h x -> exp_below l = Some a -> exp_above h = Some d ->
  at_least a (exp x) /\ at_most d (exp x).
Proof.
  intros l h x a d L H A B. assert (P := one_pos'). assert (A0 := exp_below_ok _ _ A). assert (B0 := exp_above_ok _ _ B).
  unfold at_least, at_most in *. assert (L' : IZR l / IZR one <= x).
  { apply Rmult_le_reg_r with (IZR one); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  assert (H' : x <= IZR h / IZR one).
  { apply Rmult_le_reg_r with (IZR one); [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  apply exp_le in L', H'. nra.
Qed.

Lemma wider : forall l h x a b, area_at l = Some (a, b) -> at_least l x -> at_most h x ->
  at_least a (RInt bell 0 x) /\ at_most (b + (h - l)) (RInt bell 0 x).
Proof.
  intros l h x a b A L H. destruct (area_at_ok l _ _ A) as [A0 A1]. assert (P := one_pos'). unfold at_least, at_most in *.
  set (y := IZR l / IZR one) in *. assert (Y : y * IZR one = IZR l) by (unfold y; field; lra).
  assert (L' : y <= x) by (apply Rmult_le_reg_r with (IZR one); lra). assert (M := area_rises y x L'). rewrite plus_IZR, minus_IZR.
  assert (U : RInt bell y x <= x - y).
  { apply Rle_trans with (RInt (fun _ => 1) y x).
    - apply RInt_le; [assumption | apply integrable | apply ex_RInt_const |]. intros. apply bell_le_1.
    - right. rewrite (RInt_const (V := R_CompleteNormedModule)). unfold scal; simpl; unfold mult; simpl. ring. }
  rewrite <- (chasles 0 y x) in *. split; nra.
Qed.

Lemma sum_ok : forall a b x y, around a x -> around b y -> around (sum_in a b) (x + y).
Proof.
  intros [[a b]|] [[c d]|] x y A B l h E; try discriminate. injection E as <- <-. destruct (A _ _ eq_refl). destruct (B _ _ eq_refl).
  unfold at_least, at_most in *. rewrite !plus_IZR. lra.
Qed.

Lemma opposite_ok : forall a x, around a x -> around (opposite_in a) (- x).
Proof.
  intros [[a b]|] x A l h E; try discriminate. injection E as <- <-. destruct (A _ _ eq_refl).
  unfold at_least, at_most in *. rewrite !opp_IZR. lra.
Qed.

Lemma product_ok : forall a b x y, around a x -> around b y -> around (product_in a b) (x * y).
Proof.
  intros [[a b]|] [[c d]|] x y X Y l h E; try discriminate. injection E as <- <-. destruct (X _ _ eq_refl) as [A B].
  destruct (Y _ _ eq_refl) as [C D].
  set (m := Z.min (Z.min (a * c) (a * d)) (Z.min (b * c) (b * d))). set (k := Z.max (Z.max (a * c) (a * d)) (Z.max (b * c) (b * d))).
  assert (P := one_pos'). unfold at_least, at_most in *.
  assert (Q : IZR m <= x * IZR one * (y * IZR one) <= IZR k).
  { apply (product (IZR a) (IZR b) (IZR c) (IZR d)); (try (split; assumption)); unfold m, k; rewrite <- mult_IZR; apply IZR_le; lia. }
  assert (U := down_low m). assert (V := up_high k). split; apply Rmult_le_reg_r with (IZR one); try assumption; nra.
Qed.

Lemma inverse_ok : forall a x, around a x -> around (inverse_in a) (/ x).
Proof.
  intros [[a b]|] x X l h; unfold inverse_in; [|discriminate]. destruct (0 <? a)%Z eqn:A; [|discriminate].
  destruct (0 <? b)%Z eqn:B; [|discriminate]. intro E. injection E as <- <-. apply Z.ltb_lt in A, B.
  destruct (X _ _ eq_refl) as [L H]. split; [|now apply inverse_high].
  apply inverse_low; try assumption. unfold at_least in L. apply IZR_lt in A. assert (P := one_pos').
  apply Rmult_lt_reg_r with (IZR one); lra.
Qed.

Lemma exp_ok : forall a x, around a x -> around (exp_in a) (exp x).
Proof.
  intros [[a b]|] x X l h; unfold exp_in; [|discriminate]. destruct (exp_below a) as [y|] eqn:A; [|discriminate].
  destruct (exp_above b) as [z|] eqn:B; [|discriminate]. intro E. injection E as <- <-. destruct (X _ _ eq_refl) as [L H].
  now apply (exp_between a b).
Qed.

Lemma area_ok : forall a x, around a x -> around (area_in a) (RInt bell 0 x).
Proof.
  intros [[a b]|] x X l h; unfold area_in; [|discriminate]. destruct (area_at a) as [[y z]|] eqn:A; [|discriminate].
  intro E. injection E as <- <-. destruct (X _ _ eq_refl) as [L H]. now apply wider.
Qed.

Theorem enclose_ok : forall t, around (enclose t) (value t).
Proof.
  induction t; cbn [enclose];
    match goal with |- around (match ?e with _ => _ end) _ => destruct e eqn:X | _ => idtac end;
    try (rewrite (exact_ok _ _ X); apply of_fraction_ok); clear X; simpl value.
  - intros l h; discriminate.
  - now apply sum_ok.
  - now apply opposite_ok.
  - now apply product_ok.
  - now apply inverse_ok.
  - now apply exp_ok.
  - now apply area_ok.
  - apply to_end_ok. split; [apply half_above | apply half_below; lra].
Qed.

Definition at_most_0 (t : term) : bool := match enclose t with Some (_, h) => (h <=? 0)%Z | None => false end.
Definition less_than_0 (t : term) : bool := match enclose t with Some (_, h) => (h <? 0)%Z | None => false end.

Theorem bounded : forall t, at_most_0 t = true -> value t <= 0.
Proof.
  intros t. unfold at_most_0. destruct (enclose t) as [[l h]|] eqn:E; [|discriminate]. intro H. apply Z.leb_le, IZR_le in H.
  destruct (enclose_ok _ _ _ E) as [_ B]. unfold at_most in B. assert (P := one_pos'). nra.
Qed.

Theorem strictly : forall t, less_than_0 t = true -> value t < 0.
Proof.
  intros t. unfold less_than_0. destruct (enclose t) as [[l h]|] eqn:E; [|discriminate]. intro H. apply Z.ltb_lt, IZR_lt in H.
  destruct (enclose_ok _ _ _ E) as [_ B]. unfold at_most in B. assert (P := one_pos'). nra.
Qed.
End Fixed.

Lemma square : forall a, a ^ 2 = a * a.
Proof. intro. ring. Qed.

(** A goal as a term, which is read off it. *)
Ltac reify x :=
  lazymatch x with
  | ?a + ?b => let a := reify a in let b := reify b in constr:(Add a b)
  | ?a - ?b => let a := reify a in let b := reify b in constr:(Add a (Opp b))
  | ?a * ?b => let a := reify a in let b := reify b in constr:(Mul a b)
  | ?a / ?b => let a := reify a in let b := reify b in constr:(Mul a (Inv b))
  | - ?a => let a := reify a in constr:(Opp a)
  | / ?a => let a := reify a in constr:(Inv a)
  | exp ?a => let a := reify a in constr:(Exp a)
  | RInt bell 0 ?a => let a := reify a in constr:(Area a)
  | half => constr:(Half)
  | IZR ?n => constr:(Number n)
  end.
Ltac computed lemma p :=
  rewrite ?square; lazymatch goal with |- ?r ?x _ => let t := reify x in
    change x with (value t); apply (lemma p t); vm_cast_no_check (eq_refl true) end.
Ltac no_more := apply Rminus_le; computed bounded 104%positive.
Ltac less := apply Rminus_lt; computed strictly 104%positive.
