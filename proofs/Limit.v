(** The error that no private mechanism can be below: a prior on true answers, and a price for each. *)
From Coq Require Import Bool Reals ZArith List Lra Lia Psatz FunctionalExtensionality.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy.
Import ListNotations.
Open Scope bool_scope.
Open Scope R_scope.

Fixpoint sum (f : nat -> R) (n : nat) : R := match n with O => 0 | S m => sum f m + f m end.

Lemma sum_ext : forall f g n, (forall r, (r < n)%nat -> f r = g r) -> sum f n = sum g n.
Proof. induction n; intros H; simpl; [reflexivity|]. rewrite IHn by (intros; apply H; lia). now rewrite H by lia. Qed.

Lemma sum_linear : forall a f b g n, sum (fun r => a * f r + b * g r) n = a * sum f n + b * sum g n.
Proof. induction n; simpl; [ring|]. rewrite IHn. ring. Qed.

Lemma sum_scal : forall a f n, sum (fun r => a * f r) n = a * sum f n.
Proof. induction n; simpl; [ring|]. rewrite IHn. ring. Qed.

Lemma sum_le : forall f g n, (forall r, (r < n)%nat -> f r <= g r) -> sum f n <= sum g n.
Proof. induction n; intros H; simpl; [lra|]. assert (A := H n ltac:(lia)). assert (B := IHn ltac:(intros; apply H; lia)). lra. Qed.

Lemma sum_pos : forall f n, (forall r, (r < n)%nat -> 0 <= f r) -> 0 <= sum f n.
Proof. induction n; intros H; simpl; [lra|]. assert (A := H n ltac:(lia)). assert (B := IHn ltac:(intros; apply H; lia)). lra. Qed.

Lemma zero_mean : forall a b, is_RInt (fun _ => 0) a b 0.
Proof. intros. evar_last; [apply (is_RInt_const (V := R_NormedModule))|]. unfold scal; simpl; unfold mult; simpl. ring. Qed.

(** ** Staircases are enough: logarithms of probabilities, rounded down to a lattice at a random place, are the same on average *)
Section Stairs.
Variables (n : nat) (c : nat -> R) (near : nat -> nat -> Prop) (eps : R).
Hypothesis Heps : 0 < eps.
Hypothesis stairs : forall h : nat -> Z, (forall r s, (r < n)%nat -> (s < n)%nat -> near r s -> (h r - h s <= 1)%Z) ->
  0 <= sum (fun r => c r * exp (eps * IZR (h r))) n.

Definition stair (k : Z) (t theta : R) : Z := if Rle_dec theta t then k else (k - 1)%Z.

Lemma stair_mean : forall k t, 0 <= t < eps ->
  is_RInt (fun theta => exp (eps * IZR (stair k t theta) + theta)) 0 eps (exp (eps * IZR k + t) * (1 - exp (- eps))).
Proof.
  intros k t Ht.
  assert (D : forall a c d, is_RInt (fun y => exp (a + y)) c d (exp (a + d) - exp (a + c))).
  { intros a x z. apply (is_RInt_derive (V := R_CompleteNormedModule) (fun y => exp (a + y))).
    - intros. auto_derive; [trivial | ring].
    - intros. apply continuity_pt_filterlim, derivable_continuous_pt. reg. }
  assert (L : is_RInt (fun theta => exp (eps * IZR (stair k t theta) + theta)) 0 t (exp (eps * IZR k + t) - exp (eps * IZR k + 0))).
  { apply is_RInt_ext with (fun y => exp (eps * IZR k + y)); [|apply D]. intros y Hy. rewrite Rmin_left, Rmax_right in Hy by lra.
    unfold stair. destruct (Rle_dec y t); [reflexivity | lra]. }
  assert (U : is_RInt (fun theta => exp (eps * IZR (stair k t theta) + theta)) t eps
    (exp (eps * IZR (k - 1) + eps) - exp (eps * IZR (k - 1) + t))).
  { apply is_RInt_ext with (fun y => exp (eps * IZR (k - 1) + y)); [|apply D]. intros y Hy. rewrite Rmin_left, Rmax_right in Hy by lra.
    unfold stair. destruct (Rle_dec y t); [lra | reflexivity]. }
  assert (S := is_RInt_Chasles (V := R_NormedModule) _ _ _ _ _ _ L U). unfold plus in S; simpl in S.
  replace (exp (eps * IZR k + t) * (1 - exp (- eps)))
    with (exp (eps * IZR k + t) - exp (eps * IZR k + 0) + (exp (eps * IZR (k - 1) + eps) - exp (eps * IZR (k - 1) + t))); [exact S|].
  rewrite minus_IZR. replace (eps * (IZR k - 1) + eps) with (eps * IZR k + 0) by ring.
  replace (eps * (IZR k - 1) + t) with (eps * IZR k + t + - eps) by ring. rewrite (exp_plus (_ + t) (- eps)). ring.
Qed.

Lemma mean_of_sum : forall (F : nat -> R -> R) (I : nat -> R) m, (forall r, (r < m)%nat -> is_RInt (F r) 0 eps (I r)) ->
  is_RInt (fun y => sum (fun r => c r * F r y) m) 0 eps (sum (fun r => c r * I r) m).
Proof.
  induction m; intro H; simpl.
  - apply zero_mean.
  - apply (is_RInt_plus (V := R_NormedModule) _ (fun y => c m * F m y)); [apply IHm; intros; apply H; lia|].
    apply (is_RInt_scal (V := R_NormedModule)). apply H. lia.
Qed.

Lemma of_logarithms : forall w : nat -> R, (forall r s, (r < n)%nat -> (s < n)%nat -> near r s -> w r - w s <= eps) ->
  0 <= sum (fun r => c r * exp (w r)) n.
Proof.
  intros w Hw.
  assert (C : exists kt : nat -> Z * R, forall r, w r = eps * IZR (fst (kt r)) + snd (kt r) /\ 0 <= snd (kt r) < eps).
  { exists (fun r => (Int_part (w r / eps), w r - eps * IZR (Int_part (w r / eps)))). intro r. simpl. split; [ring|].
    destruct (base_Int_part (w r / eps)) as [A B]. set (k := IZR (Int_part (w r / eps))) in *.
    assert (E : w r = eps * (w r / eps)) by (field; lra). split; nra. }
  destruct C as [kt C]. set (H := fun theta r => stair (fst (kt r)) (snd (kt r)) theta).
  assert (N : forall theta, 0 <= sum (fun r => c r * exp (eps * IZR (H theta r) + theta)) n).
  { intro theta. rewrite (sum_ext _ (fun r => exp theta * (c r * exp (eps * IZR (H theta r)))))
      by (intros; rewrite exp_plus; ring). rewrite sum_scal. apply Rmult_le_pos; [left; apply exp_pos|]. apply stairs.
    intros r s Hr Hs Hn. assert (W := Hw r s Hr Hs Hn). destruct (C r) as [Er Tr]. destruct (C s) as [Es Ts]. unfold H, stair.
    set (k := fst (kt r)) in *. set (m := fst (kt s)) in *. rewrite Er, Es in W.
    assert (B : (k - m < 2)%Z) by (apply lt_IZR; rewrite minus_IZR; nra).
    destruct (Rle_dec theta (snd (kt r))); destruct (Rle_dec theta (snd (kt s))); try lia.
    destruct (Z.eq_dec (k - m) 1) as [E|E]; [|lia]. exfalso. apply (f_equal IZR) in E. rewrite minus_IZR in E. nra. }
  assert (I := mean_of_sum (fun r theta => exp (eps * IZR (H theta r) + theta)) (fun r => exp (w r) * (1 - exp (- eps))) n).
  assert (J : is_RInt (fun y => sum (fun r => c r * exp (eps * IZR (H y r) + y)) n) 0 eps
    (sum (fun r => c r * (exp (w r) * (1 - exp (- eps)))) n)).
  { apply I. intros r _. destruct (C r) as [E T]. rewrite E. now apply stair_mean. }
  assert (P := is_RInt_le (fun _ => 0) _ 0 eps 0 _ ltac:(lra) (zero_mean 0 eps) J (fun y _ => N y)).
  rewrite (sum_ext _ (fun r => (1 - exp (- eps)) * (c r * exp (w r)))) in P by (intros; ring). rewrite sum_scal in P.
  assert (exp (- eps) < 1) by (rewrite <- exp_0; apply exp_increasing; lra). nra.
Qed.

Lemma of_numbers : forall v : nat -> R, (forall r, (r < n)%nat -> 0 <= v r) ->
  (forall r s, (r < n)%nat -> (s < n)%nat -> near r s -> v r <= exp eps * v s) -> 0 <= sum (fun r => c r * v r) n.
Proof.
  intros v Hv Hn.
  assert (P : forall e, 0 < e -> 0 <= sum (fun r => c r * v r) n + e * sum c n).
  { intros e He. assert (Q := of_logarithms (fun r => ln (v r + e))).
    rewrite (sum_ext (fun r => c r * exp (ln (v r + e))) (fun r => 1 * (c r * v r) + e * c r)) in Q.
    - rewrite sum_linear, Rmult_1_l in Q. apply Q. intros r s Hr Hs N. assert (A := Hv r Hr). assert (B := Hv s Hs).
      assert (D := Hn r s Hr Hs N). assert (G := exp_ge_1 eps ltac:(lra)).
      enough (ln (v r + e) <= ln (exp eps * (v s + e))) by (rewrite ln_mult, ln_exp in H by (try apply exp_pos; lra); lra).
      destruct (Rle_lt_or_eq_dec (v r + e) (exp eps * (v s + e)) ltac:(nra)) as [L|L]; [left; apply ln_increasing; lra | rewrite L; lra].
    - intros r Hr. rewrite exp_ln; [ring|]. specialize (Hv r Hr). lra. }
  destruct (Rle_dec 0 (sum (fun r => c r * v r) n)) as [L|L]; [assumption|]. exfalso. set (s := sum (fun r => c r * v r) n) in *.
  assert (A := Rle_abs (sum c n)). assert (B := Rabs_pos (sum c n)). set (a := Rabs (sum c n)) in *.
  assert (E : 0 < - s / (2 * (a + 1))) by (apply Rdiv_lt_0_compat; lra). assert (Q := P _ E). set (e := - s / (2 * (a + 1))) in *.
  assert (F : e * (2 * (a + 1)) = - s) by (unfold e; field; lra). nra.
Qed.
End Stairs.

(** ** The least sum of costs times a staircase, in whole numbers that are rounded down *)
Definition times (d x : Z) (e : Z * Z) : Z := (x * (if x <? 0 then snd e else fst e) / d)%Z.

Definition encloses (d : Z) (e : Z * Z) (x : R) : Prop := IZR (fst e) <= x * IZR d /\ x * IZR d <= IZR (snd e).

Lemma times_low : forall d x e y, (0 < d)%Z -> encloses d e y -> IZR (times d x e) <= IZR x * y.
Proof.
  intros d x e y Hd [A B]. assert (D := IZR_lt _ _ Hd). apply Rmult_le_reg_r with (IZR d); [assumption|]. unfold times.
  set (p := (x * (if x <? 0 then snd e else fst e))%Z). assert (M := Z.mul_div_le p d Hd). apply IZR_le in M. rewrite mult_IZR in M.
  enough (IZR p <= IZR x * y * IZR d) by lra. unfold p. destruct (Z.ltb_spec x 0) as [N|N]; rewrite mult_IZR.
  - apply IZR_lt in N. nra.
  - apply IZR_le in N. nra.
Qed.

(** [ups] has the least that is left of a jump upward up to each input, less the sum, the last one first; [downs] alike.
    Each next input has its cost, and how many inputs before the last one are its neighbours. *)
Fixpoint cheapest (d : Z) (rise fall : Z * Z) (rest : list (Z * nat)) (total : Z) (ups downs : list Z) : Z :=
  match rest with
  | [] => total + Z.min (hd 0%Z ups) (hd 0%Z downs)
  | (cost, back) :: rest =>
    let up := times d (total + Z.min (nth back ups 0%Z) (hd 0%Z downs)) fall - total in
    let down := times d (total + Z.min (nth back downs 0%Z) (hd 0%Z ups)) rise - total in
    cheapest d rise fall rest (total + cost) (Z.min (hd 0%Z ups) up :: ups) (Z.min (hd 0%Z downs) down :: downs)
  end%Z.

Section Cheapest.
Variables (eps : R) (d : Z) (rise fall : Z * Z) (h : nat -> Z) (c : nat -> Z).
Hypothesis Hd : (0 < d)%Z.
Hypothesis Hrise : encloses d rise (exp eps).
Hypothesis Hfall : encloses d fall (exp (- eps)).

Definition level (z : Z) : R := exp (eps * IZR z).
Definition before (s : nat) : R := sum (fun r => IZR (c r) * level (h r - h s)) (S s).

Lemma before_next : forall s, before (S s) = before s * level (h s - h (S s)) + IZR (c (S s)).
Proof.
  intro s. unfold before. change (sum ?f (S (S s))) with (sum f (S s) + f (S s)). cbv beta.
  replace (h (S s) - h (S s))%Z with 0%Z by lia. unfold level at 2. rewrite Rmult_0_r, exp_0, Rmult_1_r.
  f_equal. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros r _.
  replace (h r - h (S s))%Z with ((h s - h (S s)) + (h r - h s))%Z by lia. unfold level.
  rewrite plus_IZR, Rmult_plus_distr_l, exp_plus. ring.
Qed.

(** The last jump up to s, if there is one, is from j - 1 to j; k is any place from there on. *)
Definition jumped (way : Z) (s : nat) (total : Z) (least : list Z) : Prop :=
  exists j, (1 <= j <= s)%nat /\ h j = (h (j - 1)%nat + way)%Z /\ h s = h j /\
    forall k, (j <= k <= s)%nat -> IZR (total + nth (s - k) least 0%Z) <= before s.

Definition state (s : nat) (total : Z) (ups downs : list Z) : Prop :=
  (forall i, (nth i ups 0 <= 0)%Z) /\ (forall i, (nth i downs 0 <= 0)%Z) /\
  (before s = IZR total \/ jumped 1 s total ups \/ jumped (-1) s total downs).

Lemma hd_nth : forall (l : list Z), hd 0%Z l = nth 0 l 0%Z.
Proof. now intros [|]. Qed.

Lemma first_of : forall way s total least, jumped way s total least -> IZR (total + hd 0%Z least) <= before s.
Proof. intros way s total least [j [Hj [_ [_ H]]]]. rewrite hd_nth. replace 0%nat with (s - s)%nat by lia. apply H. lia. Qed.

Lemma pushed : forall x l i, (forall i, (nth i l 0 <= 0)%Z) -> (nth i (Z.min (hd 0%Z l) x :: l) 0 <= 0)%Z.
Proof. intros x l [|i] H; simpl; [|apply H]. rewrite hd_nth. specialize (H 0%nat). lia. Qed.

Lemma stays : forall way s total least cost x, jumped way s total least -> h (S s) = h s -> c (S s) = cost ->
  jumped way (S s) (total + cost) (Z.min (hd 0%Z least) x :: least)%Z.
Proof.
  intros way s total least cost x [j [Hj [J [E H]]]] Hs Hc. exists j. split; [lia|]. split; [assumption|]. split; [lia|].
  assert (N := before_next s). replace (h s - h (S s))%Z with 0%Z in N by lia. unfold level in N. rewrite Rmult_0_r, exp_0, Hc in N.
  intros k Hk. rewrite N. replace (total + cost + nth (S s - k) (Z.min (hd 0%Z least) x :: least) 0)%Z
    with (total + nth (S s - k) (Z.min (hd 0%Z least) x :: least) 0 + cost)%Z by ring. rewrite plus_IZR.
  apply Rplus_le_compat_r. rewrite Rmult_1_r. destruct (Nat.eq_dec k (S s)) as [K|K].
  - subst k. rewrite Nat.sub_diag. cbn [nth]. apply Rle_trans with (IZR (total + hd 0%Z least)); [apply IZR_le; lia|].
    apply (first_of way). exists j. auto.
  - replace (S s - k)%nat with (S (s - k)) by lia. apply H. lia.
Qed.

Lemma left_of : forall way s total mine others back,
  (forall i, (nth i mine 0 <= 0)%Z) -> (forall i, (nth i others 0 <= 0)%Z) -> (way * way = 1)%Z ->
  before s = IZR total \/ jumped way s total mine \/ jumped (- way) s total others ->
  h (S s) = (h s + way)%Z -> (back <= s)%nat -> (forall r, (s - back <= r <= s)%nat -> (Z.abs (h (S s) - h r) <= 1)%Z) ->
  IZR (total + Z.min (nth back mine 0%Z) (hd 0%Z others)) <= before s.
Proof.
  intros way s total mine others back M O W Hst Hj Hb Hr. destruct Hst as [E|[J|J]].
  - rewrite E. apply IZR_le. specialize (M back). lia.
  - destruct J as [j [Hjs [Jj [E H]]]]. apply Rle_trans with (IZR (total + nth back mine 0%Z)); [apply IZR_le; lia|].
    replace back with (s - (s - back))%nat by lia. apply H. split; [|lia].
    destruct (Nat.le_gt_cases j (s - back)) as [L|L]; [assumption|]. exfalso. specialize (Hr (j - 1)%nat ltac:(lia)). nia.
  - apply first_of in J. apply Rle_trans with (2 := J). apply IZR_le. lia.
Qed.

Lemma jumps : forall way e s total mine others back cost,
  (way = 1 \/ way = -1)%Z -> encloses d e (level (- way)) -> 
  (forall i, (nth i mine 0 <= 0)%Z) -> (forall i, (nth i others 0 <= 0)%Z) ->
  before s = IZR total \/ jumped way s total mine \/ jumped (- way) s total others ->
  h (S s) = (h s + way)%Z -> (back <= s)%nat -> (forall r, (s - back <= r <= s)%nat -> (Z.abs (h (S s) - h r) <= 1)%Z) ->
  c (S s) = cost ->
  jumped way (S s) (total + cost) (Z.min (hd 0%Z mine) (times d (total + Z.min (nth back mine 0%Z) (hd 0%Z others)) e - total) :: mine)%Z.
Proof.
  intros way e s total mine others back cost W He M O Hst Hj Hb Hr Hc.
  assert (L := left_of way s total mine others back M O ltac:(lia) Hst Hj Hb Hr).
  exists (S s). split; [lia|]. split; [replace (S s - 1)%nat with s by lia; assumption|]. split; [reflexivity|].
  intros k Hk. replace (S s - k)%nat with 0%nat by lia. cbn [nth]. rewrite before_next, Hc.
  replace (h s - h (S s))%Z with (- way)%Z by lia. set (x := (total + Z.min (nth back mine 0%Z) (hd 0%Z others))%Z) in *.
  assert (T := times_low d x e _ Hd He). assert (P : 0 < level (- way)) by apply exp_pos.
  apply Rle_trans with (IZR (times d x e + cost)); [apply IZR_le; lia|]. rewrite plus_IZR. apply Rplus_le_compat_r.
  apply Rle_trans with (1 := T). apply Rmult_le_compat_r; lra.
Qed.

Lemma level_down : encloses d fall (level (- (1))).
Proof. unfold level. replace (eps * IZR (- (1))) with (- eps) by (rewrite opp_IZR; ring). exact Hfall. Qed.
Lemma level_up : encloses d rise (level (- (-1))).
Proof. unfold level. replace (eps * IZR (- (-1))) with eps by (simpl; ring). exact Hrise. Qed.


(** Whatever the staircase is, the sum is no less than what was found. *)
Lemma cheapest_low : forall later s total ups downs,
  state s total ups downs -> (forall i, (i < length later)%nat ->
    fst (nth i later (0%Z, 0%nat)) = c (S s + i) /\ (snd (nth i later (0%Z, 0%nat)) <= s + i)%nat /\
    forall r, (s + i - snd (nth i later (0%Z, 0%nat)) <= r <= s + i)%nat -> (Z.abs (h (S s + i) - h r) <= 1)%Z) ->
  IZR (cheapest d rise fall later total ups downs) <= before (s + length later).
Proof.
  induction later as [|[cost back] later IH]; intros s total ups downs [U [D St]] H; cbn [cheapest length].
  - replace (s + 0)%nat with s by lia. destruct St as [E|[J|J]].
    + rewrite E. apply IZR_le. rewrite !hd_nth. specialize (U 0%nat). lia.
    + apply first_of in J. apply Rle_trans with (2 := J). apply IZR_le. lia.
    + apply first_of in J. apply Rle_trans with (2 := J). apply IZR_le. lia.
  - replace (s + S (length later))%nat with (S s + length later)%nat by lia. assert (H0 := H 0%nat ltac:(simpl; lia)). cbn [nth fst snd] in H0.
    rewrite !Nat.add_0_r in H0. destruct H0 as [Hc [Hb Hr]]. apply IH.
    + split; [intro; now apply pushed|]. split; [intro; now apply pushed|].
      assert (One := Hr s ltac:(lia)). destruct (Z.eq_dec (h (S s)) (h s)) as [E|E].
      * destruct St as [F|[J|J]]; [left | right; left | right; right]; [|now apply stays | now apply stays].
        rewrite before_next, F, plus_IZR, Hc. replace (h s - h (S s))%Z with 0%Z by lia. unfold level. rewrite Rmult_0_r, exp_0. ring.
      * right. destruct (Z.eq_dec (h (S s)) (h s + 1)) as [P|P]; [left | right].
        -- apply jumps; try assumption; [now left | exact level_down | now symmetry].
        -- apply jumps; try assumption; [now right | exact level_up | tauto | lia | now symmetry].
    + intros i Hi. specialize (H (S i) ltac:(simpl; lia)). cbn [nth] in H.
      replace (S (S s) + i)%nat with (S s + S i)%nat by lia. replace (S s + i)%nat with (s + S i)%nat by lia. exact H.
Qed.
End Cheapest.

(** ** The proof of a limit: true answers, a prior and a price for each, in parts of [unit], and how many inputs before each
    one are its neighbours *)
Definition away (squared : bool) (z : Z) : Z := if squared then (z * z)%Z else Z.abs z.
Definition loss (squared : bool) (z : R) : R := if squared then z ^ 2 else Rabs z.
Definition at_ (l : list Z) (s : nat) : Z := nth s l 0%Z.

Fixpoint costs (squared : bool) (inputs prior prices : list Z) (y : Z) : list Z :=
  match inputs, prior, prices with
  | t :: inputs, lam :: prior, u :: prices => (lam * away squared (y - t) - u)%Z :: costs squared inputs prior prices y
  | _, _, _ => []
  end.

Definition holds_at (squared : bool) (d : Z) (rise fall : Z * Z) (inputs prior prices : list Z) (backs : list nat) (y : Z) : bool :=
  match costs squared inputs prior prices y with
  | [] => false
  | cost :: rest => (0 <=? cheapest d rise fall (combine rest backs) cost [0] [0])%Z
  end.

Definition near_holds (s : Z) (inputs : list Z) (backs : list nat) : bool :=
  Nat.eqb (length inputs) (S (length backs)) && forallb (fun i => (Nat.leb (nth i backs 0%nat) i) &&
    (at_ inputs (S i) - at_ inputs (i - nth i backs 0%nat) <=? s)%Z && (at_ inputs i <=? at_ inputs (S i))%Z) (seq 0 (length backs)).

(** Outputs at which the sum is checked: of an absolute error the inputs, else as close to each other as [gap]. *)
Definition outputs_hold (squared : bool) (gap : Z) (inputs outputs : list Z) : bool :=
  if squared then
    Nat.leb 2 (length outputs) && (at_ outputs 0 <=? at_ inputs 0)%Z &&
    (at_ inputs (length inputs - 1) <=? at_ outputs (length outputs - 1))%Z &&
    forallb (fun i => (at_ outputs (S i) - at_ outputs i <=? gap)%Z) (seq 0 (length outputs - 1))
  else forallb (fun t => existsb (Z.eqb t) outputs) inputs.

(** What an expectation is: a sum, an integral, or any other. *)
Record expectation (I : (R -> R) -> R -> Prop) : Prop := {
  adds : forall f g a b, I f a -> I g b -> I (fun y => f y + g y) (a + b);
  scales : forall k f a, I f a -> I (fun y => k * f y) (k * a);
  positive : forall f a, I f a -> (forall y, 0 <= f y) -> 0 <= a
}.

Lemma between : forall (f : nat -> R) x n, f 0%nat <= x <= f (S n) -> exists i, (i <= n)%nat /\ f i <= x <= f (S i).
Proof.
  induction n as [|n IH]; intro H; [exists 0%nat; split; [lia | assumption]|].
  destruct (Rle_dec (f (S n)) x) as [L|L]; [exists (S n); split; [lia | lra]|].
  destruct IH as [i [Hi B]]; [lra|]. exists i. split; [lia | assumption].
Qed.

Section Losses.
Variables (n : nat) (t lam u v : nat -> R).
Hypothesis Hlam : forall s, (s < n)%nat -> 0 <= lam s.
Hypothesis Hv : forall s, (s < n)%nat -> 0 <= v s.
Hypothesis Ht : forall r s, (r <= s < n)%nat -> t r <= t s.

(** Between two inputs, absolute errors are linear; beyond the last ones they grow. *)
Lemma absolute : (forall i, (i < n)%nat -> 0 <= sum (fun s => (lam s * Rabs (t i - t s) - u s) * v s) n) ->
  forall y, 0 <= sum (fun s => (lam s * Rabs (y - t s) - u s) * v s) n.
Proof.
  intros H y. destruct n as [|m] eqn:En; [simpl; lra|]. rewrite <- En in *.
  destruct (Rle_dec y (t 0%nat)) as [A|A].
  { apply Rle_trans with (1 := H 0%nat ltac:(lia)). apply sum_le. intros s Hs. assert (T := Ht 0%nat s ltac:(lia)).
    assert (P := Hlam s Hs). assert (Q := Hv s Hs). apply Rmult_le_compat_r; [assumption|]. rewrite !Rabs_left1 by lra. nra. }
  destruct (Rle_dec (t m) y) as [B|B].
  { apply Rle_trans with (1 := H m ltac:(lia)). apply sum_le. intros s Hs. assert (T := Ht s m ltac:(lia)).
    assert (P := Hlam s Hs). assert (Q := Hv s Hs). apply Rmult_le_compat_r; [assumption|]. rewrite !Rabs_right by lra. nra. }
  destruct m as [|k]; [lra|]. destruct (between t y k ltac:(lra)) as [i [Hi [L U]]].
  destruct (Rle_lt_or_eq_dec (t i) (t (S i)) ltac:(lra)) as [N|E].
  - set (w := (y - t i) / (t (S i) - t i)). assert (W : w * (t (S i) - t i) = y - t i) by (unfold w; field; lra).
    assert (W0 : 0 <= w <= 1) by (split; apply Rmult_le_reg_r with (t (S i) - t i); lra).
    rewrite (sum_ext _ (fun s => (1 - w) * ((lam s * Rabs (t i - t s) - u s) * v s) + w * ((lam s * Rabs (t (S i) - t s) - u s) * v s))).
    + rewrite sum_linear. assert (P := H i ltac:(lia)). assert (Q := H (S i) ltac:(lia)).
      apply Rplus_le_le_0_compat; apply Rmult_le_pos; lra.
    + intros s Hs. enough (Rabs (y - t s) = (1 - w) * Rabs (t i - t s) + w * Rabs (t (S i) - t s)) as -> by ring.
      destruct (Nat.le_gt_cases s i) as [F|F].
      * assert (T := Ht s i ltac:(lia)). rewrite !Rabs_right by lra. lra.
      * assert (T := Ht (S i) s ltac:(lia)). rewrite !Rabs_left1 by lra. lra.
  - replace y with (t i) by lra. apply H. lia.
Qed.

(** A squared error is a parabola, whose least is between two outputs that were checked. *)
Lemma quadratic : forall (z : nat -> R) m gap, z 0%nat <= t 0%nat -> t (n - 1)%nat <= z (S m) ->
  (forall j, (j <= m)%nat -> z (S j) - z j <= gap) ->
  (forall j, (j <= S m)%nat -> 0 <= sum (fun s => (lam s * (z j - t s) ^ 2 - u s) * v s) n) ->
  forall y, 0 <= sum (fun s => (lam s * (y - t s) ^ 2 - u s + lam s * (gap ^ 2 / 4)) * v s) n.
Proof.
  intros z m gap First Last Gap H y. set (A := sum (fun s => lam s * v s) n). set (B := sum (fun s => lam s * t s * v s) n).
  set (C := sum (fun s => (lam s * t s ^ 2 - u s) * v s) n).
  assert (E : forall x g, sum (fun s => (lam s * (x - t s) ^ 2 - u s + lam s * g) * v s) n = A * x ^ 2 - 2 * B * x + C + A * g).
  { intros x g. unfold A, B, C. clear. induction n as [|k IH]; cbn [sum]; [ring|]. rewrite IH. ring. }
  assert (E0 : forall x, sum (fun s => (lam s * (x - t s) ^ 2 - u s) * v s) n = A * x ^ 2 - 2 * B * x + C).
  { intros x. rewrite <- (Rplus_0_r (_ + C)), <- (Rmult_0_r A), <- E. apply sum_ext. intros. ring. }
  assert (A0 : 0 <= A) by (apply sum_pos; intros s Hs; apply Rmult_le_pos; auto).
  assert (BL : z 0%nat * A <= B).
  { unfold A, B. rewrite <- sum_scal. apply sum_le. intros s Hs. assert (T := Ht 0%nat s ltac:(lia)).
    assert (P := Rmult_le_pos _ _ (Hlam s Hs) (Hv s Hs)). nra. }
  assert (BU : B <= z (S m) * A).
  { unfold A, B. rewrite <- sum_scal. apply sum_le. intros s Hs. assert (T := Ht s (n - 1)%nat ltac:(lia)).
    assert (P := Rmult_le_pos _ _ (Hlam s Hs) (Hv s Hs)). nra. }
  rewrite E. assert (Hz : forall j, (j <= S m)%nat -> 0 <= A * z j ^ 2 - 2 * B * z j + C) by (intros; rewrite <- E0; auto).
  destruct (Rle_lt_or_eq_dec 0 A A0) as [P|Z].
  - set (x := B / A). assert (X : x * A = B) by (unfold x; field; lra).
    assert (X0 : z 0%nat <= x <= z (S m)) by (split; apply Rmult_le_reg_r with A; lra).
    destruct (between z x m X0) as [j [Hj [L U]]].
    assert (D : exists k, (k <= S m)%nat /\ (z k - x) ^ 2 <= gap ^ 2 / 4).
    { specialize (Gap j Hj). destruct (Rle_dec (x - z j) (z (S j) - x)).
      - exists j. split; [lia|]. nra.
      - exists (S j). split; [lia|]. nra. }
    destruct D as [k [Hk D]]. specialize (Hz k Hk). rewrite <- X in *.
    assert (A * (z k - x) ^ 2 <= A * (gap ^ 2 / 4)) by (apply Rmult_le_compat_l; lra).
    assert (0 <= A * (y - x) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). nra.
  - rewrite <- Z in *. assert (B = 0) by lra. specialize (Hz 0%nat ltac:(lia)). rewrite H0 in *. nra.
Qed.
End Losses.

Lemma some_above : forall n (w f : nat -> R), (forall r, (r < n)%nat -> 0 <= w r) -> 0 <= sum (fun r => w r * f r) n -> 0 < sum w n ->
  exists r, (r < n)%nat /\ 0 <= f r.
Proof.
  intros n w f Hw. enough (H : (exists r, (r < n)%nat /\ 0 <= f r) \/ (sum (fun r => w r * f r) n <= 0 /\
    (sum (fun r => w r * f r) n = 0 -> sum w n = 0))).
  { intros P Q. destruct H as [H|[A B]]; [assumption|]. assert (sum (fun r => w r * f r) n = 0) by lra. specialize (B H). lra. }
  induction n as [|n IH]; [right; simpl; split; intros; lra|]. destruct IH as [[r [Hr F]]|[A B]]; [intros; apply Hw; lia | left; exists r; split; [lia | assumption] |].
  destruct (Rle_dec 0 (f n)) as [F|F]; [left; exists n; split; [lia | assumption]|]. right. cbn [sum].
  assert (W := Hw n ltac:(lia)). assert (w n * f n <= 0) by nra. split; [lra|]. intro E. assert (E0 : w n * f n = 0) by lra.
  rewrite B by lra. destruct (Rmult_integral _ _ E0); lra.
Qed.

Lemma whole_sum : forall l, IZR (fold_right Z.add 0%Z l) = sum (fun r => IZR (at_ l r)) (length l).
Proof.
  assert (F : forall f n, sum f (S n) = f 0%nat + sum (fun r => f (S r)) n).
  { intros f n. induction n as [|n IH]; [simpl; ring|]. change (sum f (S (S n))) with (sum f (S n) + f (S n)). rewrite IH. simpl. ring. }
  induction l as [|z l IH]; [reflexivity|]. cbn [length]. rewrite F. cbn [fold_right]. rewrite plus_IZR, IH. reflexivity.
Qed.

Section Limit.
Variables (squared : bool) (eps sensitivity value : R) (unit s d gap : Z) (rise fall : Z * Z).
Variables (inputs prior prices outputs : list Z) (backs : list nat) (inside : R -> Prop).
Notation n := (length inputs).
Notation place r := (IZR (at_ inputs r) / IZR unit).
Hypothesis Heps : 0 < eps.
Hypothesis Hunit : (0 < unit)%Z.
Hypothesis Hd : (0 < d)%Z.
Hypothesis Hrise : encloses d rise (exp eps).
Hypothesis Hfall : encloses d fall (exp (- eps)).
Hypothesis Hs : IZR s <= sensitivity * IZR unit.
Hypothesis Hlengths : length prior = n /\ length prices = n.
Hypothesis Hprior : forallb (fun l => 0 <=? l)%Z prior = true.
Hypothesis Hnear : near_holds s inputs backs = true.
Hypothesis Houtputs : outputs_hold squared gap inputs outputs = true.
Hypothesis Hholds : forallb (holds_at squared d rise fall inputs prior prices backs) outputs = true.
Hypothesis Hinside : forall r, (r < n)%nat -> inside (place r).

Lemma near_facts : n = S (length backs) /\ forall i, (i < length backs)%nat -> (nth i backs 0%nat <= i)%nat /\
  (at_ inputs (S i) - at_ inputs (i - nth i backs 0%nat) <= s)%Z /\ (at_ inputs i <= at_ inputs (S i))%Z.
Proof.
  unfold near_holds in Hnear. apply andb_prop in Hnear. destruct Hnear as [L H]. apply Nat.eqb_eq in L. split; [assumption|].
  rewrite forallb_forall in H. intros i Hi. specialize (H i ltac:(apply in_seq; lia)). apply andb_prop in H. destruct H as [H C].
  apply andb_prop in H. destruct H as [A B]. apply Nat.leb_le in A. apply Z.leb_le in B, C. auto.
Qed.

Lemma ascend : forall r q, (r <= q < n)%nat -> (at_ inputs r <= at_ inputs q)%Z.
Proof.
  destruct near_facts as [N F]. intros r q [Hr Hq]. induction q as [|q IH]; [replace r with 0%nat by lia; lia|].
  destruct (Nat.eq_dec r (S q)) as [->|E]; [lia|]. specialize (IH ltac:(lia) ltac:(lia)). destruct (F q ltac:(lia)) as [_ [_ A]]. lia.
Qed.

Lemma costs_at : forall ts ls us y, length ls = length ts -> length us = length ts ->
  length (costs squared ts ls us y) = length ts /\
  forall r, (r < length ts)%nat -> at_ (costs squared ts ls us y) r = (at_ ls r * away squared (y - at_ ts r) - at_ us r)%Z.
Proof.
  unfold at_. induction ts as [|t ts IH]; intros [|l ls] [|u us] y L U; try discriminate; simpl; [split; [reflexivity | lia]|].
  destruct (IH ls us y ltac:(simpl in L; lia) ltac:(simpl in U; lia)) as [A B]. split; [lia|]. intros [|r] Hr; [reflexivity | apply B; lia].
Qed.

Lemma checked_stairs : forall y h, In y outputs ->
  (forall r q, (r < n)%nat -> (q < n)%nat -> (Z.abs (at_ inputs r - at_ inputs q) <= s)%Z -> (h r - h q <= 1)%Z) ->
  0 <= sum (fun r => IZR (at_ (costs squared inputs prior prices y) r) * exp (eps * IZR (h r))) n.
Proof.
  intros y h Hy Hh. destruct near_facts as [N F]. rewrite forallb_forall in Hholds. specialize (Hholds y Hy). unfold holds_at in Hholds.
  destruct (costs_at inputs prior prices y ltac:(tauto) ltac:(tauto)) as [Len _].
  set (cs := costs squared inputs prior prices y) in *. destruct cs as [|cost rest] eqn:Ec; [discriminate|]. apply Z.leb_le, IZR_le in Hholds.
  simpl in Len. assert (Lr : length rest = length backs) by lia.
  assert (K := cheapest_low eps d rise fall h (at_ (cost :: rest)) Hd Hrise Hfall (combine rest backs) 0 cost [0%Z] [0%Z]).
  rewrite combine_length, Lr, Nat.min_id in K.
  assert (P : 0 <= sum (fun r => IZR (at_ (cost :: rest) r) * level eps (h r - h (length backs))) n).
  { rewrite N. apply Rle_trans with (1 := Hholds). apply K; clear K.
    - split; [intros [|[|]]; simpl; lia|]. split; [intros [|[|]]; simpl; lia|]. left. unfold before. simpl.
      unfold level, at_. simpl. replace (h 0%nat - h 0%nat)%Z with 0%Z by lia. rewrite Rmult_0_r, exp_0. ring.
    - intros i Hi. destruct (F i Hi) as [A [B C]]. rewrite combine_nth by assumption. cbn [fst snd].
      split; [reflexivity|]. split; [lia|]. intros r Hr. 
      assert (R : (Z.abs (at_ inputs (S i) - at_ inputs r) <= s)%Z).
      { assert (U := ascend r (S i) ltac:(lia)). assert (V := ascend (i - nth i backs 0%nat) r ltac:(lia)). lia. }
      assert (G := Hh (S i) r ltac:(lia) ltac:(lia) R). assert (G' := Hh r (S i) ltac:(lia) ltac:(lia) ltac:(lia)). simpl. lia. }
  rewrite (sum_ext _ (fun r => exp (eps * IZR (h (length backs))) * (IZR (at_ (cost :: rest) r) * level eps (h r - h (length backs))))).
  - rewrite sum_scal. apply Rmult_le_pos; [left; apply exp_pos | assumption].
  - intros r _. unfold level. rewrite minus_IZR. replace (eps * IZR (h r))
      with (eps * IZR (h (length backs)) + eps * (IZR (h r) - IZR (h (length backs)))) by ring. rewrite exp_plus. ring.
Qed.

Definition slack : R := if squared then IZR gap ^ 2 / 4 else 0.

(** At every number y, what the probabilities of y cost is not below their price. *)
Lemma everywhere : forall (v : nat -> R), (forall r, (r < n)%nat -> 0 <= v r) ->
  (forall r q, (r < n)%nat -> (q < n)%nat -> Rabs (place r - place q) <= sensitivity -> v r <= exp eps * v q) ->
  forall y, 0 <= sum (fun r => (IZR (at_ prior r) * loss squared (y - IZR (at_ inputs r)) - IZR (at_ prices r) + IZR (at_ prior r) * slack) * v r) n.
Proof.
  intros v Hv Hn y. assert (U := IZR_lt _ _ Hunit).
  assert (L : forall r, (r < n)%nat -> 0 <= IZR (at_ prior r)).
  { intros r Hr. apply IZR_le. rewrite forallb_forall in Hprior. apply Z.leb_le, Hprior, nth_In. lia. }
  assert (T : forall r q, (r <= q < n)%nat -> IZR (at_ inputs r) <= IZR (at_ inputs q)) by (intros; apply IZR_le, ascend; assumption).
  assert (Checked : forall z, In z outputs ->
    0 <= sum (fun r => (IZR (at_ prior r) * loss squared (IZR z - IZR (at_ inputs r)) - IZR (at_ prices r)) * v r) n).
  { intros z Hz. destruct (costs_at inputs prior prices z ltac:(tauto) ltac:(tauto)) as [_ Cs].
    rewrite (sum_ext _ (fun r => IZR (at_ (costs squared inputs prior prices z) r) * v r)).
    - apply (of_numbers n (fun r => IZR (at_ (costs squared inputs prior prices z) r))
        (fun r q => (Z.abs (at_ inputs r - at_ inputs q) <= s)%Z) eps Heps); try assumption.
      + intros h Hh. now apply checked_stairs.
      + intros r q Hr Hq N. apply Hn; try assumption. apply Rmult_le_reg_r with (IZR unit); [assumption|].
        replace (Rabs (place r - place q) * IZR unit) with (Rabs ((place r - place q) * IZR unit))
          by (rewrite Rabs_mult, (Rabs_right (IZR unit)) by lra; reflexivity).
        replace ((place r - place q) * IZR unit) with (IZR (at_ inputs r - at_ inputs q)) by (rewrite minus_IZR; field; lra).
        rewrite <- abs_IZR. apply IZR_le in N. lra.
    - intros r Hr. rewrite Cs by assumption. rewrite minus_IZR, mult_IZR. f_equal. f_equal. f_equal. unfold loss, away.
      destruct squared; [rewrite mult_IZR, minus_IZR; ring | rewrite abs_IZR, minus_IZR; reflexivity]. }
  destruct near_facts as [N _]. unfold slack, outputs_hold in *. destruct squared.
  - apply andb_prop in Houtputs. destruct Houtputs as [O G]. apply andb_prop in O. destruct O as [O O1].
    apply andb_prop in O. destruct O as [O2 O0]. apply Nat.leb_le in O2. apply Z.leb_le, IZR_le in O0, O1. rewrite forallb_forall in G. unfold loss in *.
    apply (quadratic n (fun r => IZR (at_ inputs r)) (fun r => IZR (at_ prior r)) (fun r => IZR (at_ prices r)) v L Hv T
      (fun j => IZR (at_ outputs j)) (length outputs - 2) (IZR gap)); try assumption.
    + now replace (S (length outputs - 2)) with (length outputs - 1)%nat by lia.
    + intros j Hj. specialize (G j ltac:(apply in_seq; lia)). apply Z.leb_le, IZR_le in G. now rewrite minus_IZR in G.
    + intros j Hj. apply Checked. apply nth_In. lia.
  - rewrite (sum_ext _ (fun r => (IZR (at_ prior r) * Rabs (y - IZR (at_ inputs r)) - IZR (at_ prices r)) * v r))
      by (intros; unfold loss; ring).
    apply absolute; try assumption. intros i Hi. unfold loss in Checked. apply Checked. rewrite forallb_forall in Houtputs.
    specialize (Houtputs (at_ inputs i) ltac:(apply nth_In; assumption)). apply existsb_exists in Houtputs.
    destruct Houtputs as [z [Hz E]]. apply Z.eqb_eq in E. now rewrite E.
Qed.

(** Some true answer has the error, whatever the mechanism publishes: [p x] is a density of the output at the true answer x,
    or its probabilities, and I the expectation that belongs to it. *)
Theorem limit : forall (I : (R -> R) -> R -> Prop) (p : R -> R -> R) (error : R -> R), expectation I ->
  (value * (if squared then IZR unit ^ 2 else IZR unit) + slack) * IZR (fold_right Z.add 0%Z prior) <= IZR (fold_right Z.add 0%Z prices) ->
  (0 < fold_right Z.add 0 prior)%Z ->
  (forall x y, inside x -> 0 <= p x y) ->
  (forall x x' y, inside x -> inside x' -> Rabs (x - x') <= sensitivity -> p x y <= exp eps * p x' y) ->
  (forall x, inside x -> I (p x) 1) ->
  (forall x, inside x -> I (fun y => loss squared (y - x) * p x y) (error x)) ->
  exists x, inside x /\ value <= error x.
Proof.
  intros I p error [Ha Hk Hp] Hvalue Hsome Pos Private One Error. assert (U := IZR_lt _ _ Hunit).
  set (K := if squared then IZR unit ^ 2 else IZR unit) in *. assert (K0 : 0 < K) by (unfold K; destruct squared; [nra | assumption]).
  assert (Kl : forall r y, loss squared (y * IZR unit - IZR (at_ inputs r)) = K * loss squared (y - place r)).
  { intros r y. replace (y * IZR unit - IZR (at_ inputs r)) with (IZR unit * (y - place r)) by (field; lra).
    unfold loss, K. destruct squared; [ring | now rewrite Rabs_mult, (Rabs_right (IZR unit)) by lra]. }
  set (L := fun r => IZR (at_ prior r)). set (V := fun r => IZR (at_ prices r)).
  assert (Mean : forall m, (m <= n)%nat ->
    I (fun y => sum (fun r => (L r * loss squared (y * IZR unit - IZR (at_ inputs r)) - V r + L r * slack) * p (place r) y) m)
      (sum (fun r => L r * (K * error (place r) + slack) - V r) m)).
  { destruct near_facts as [N _]. induction m as [|m IH]; intro Hm; cbn [sum].
    - assert (Z := Hk 0 _ _ (One (place 0%nat) (Hinside 0%nat ltac:(lia)))). rewrite Rmult_0_l in Z.
      replace (fun _ : R => 0) with (fun y => 0 * p (place 0%nat) y); [exact Z|]. apply functional_extensionality. intro. ring.
    - apply (Ha (fun y => sum _ m) (fun y => _ * p (place m) y)); [apply IH; lia|]. assert (Im := Hinside m ltac:(lia)).
      assert (A := Ha _ _ _ _ (Hk (L m * K) _ _ (Error _ Im)) (Hk (L m * slack - V m) _ _ (One _ Im))).
      replace (L m * (K * error (place m) + slack) - V m) with (L m * K * error (place m) + (L m * slack - V m) * 1) by ring.
      replace (fun y => (L m * loss squared (y * IZR unit - IZR (at_ inputs m)) - V m + L m * slack) * p (place m) y)
        with (fun y => L m * K * (loss squared (y - place m) * p (place m) y) + (L m * slack - V m) * p (place m) y); [exact A|].
      apply functional_extensionality. intro y. rewrite Kl. ring. }
  assert (M := Hp _ _ (Mean n ltac:(lia))). clear Mean.
  assert (Q : 0 <= sum (fun r => L r * (K * error (place r) + slack) - V r) n).
  { apply M. intro y. apply (everywhere (fun r => p (place r) y)).
    - intros r Hr. apply Pos. auto.
    - intros r q Hr Hq Hd'. apply Private; auto. }
  rewrite (sum_ext _ (fun r => 1 * (L r * (K * (error (place r) - value))) + 1 * (L r * (value * K + slack) - V r))) in Q by (intros; ring).
  rewrite sum_linear in Q. destruct Hlengths as [Lp Lu].
  assert (T : sum (fun r => L r * (value * K + slack) - V r) n <= 0).
  { rewrite (sum_ext _ (fun r => (value * K + slack) * L r + (- 1) * V r)) by (intros; ring). rewrite sum_linear. unfold L, V.
    rewrite <- Lp at 1. rewrite <- Lu. rewrite <- !whole_sum. lra. }
  destruct (some_above n L (fun r => K * (error (place r) - value))) as [r [Hr E]].
  - intros r Hr. apply IZR_le. rewrite forallb_forall in Hprior. apply Z.leb_le, Hprior, nth_In. lia.
  - lra.
  - unfold L. rewrite <- Lp, <- whole_sum. now apply IZR_lt.
  - exists (place r). split; [auto|]. nra.
Qed.
End Limit.

Lemma inputs_between : forall inputs unit lo hi first last, (0 < unit)%Z -> first * IZR unit <= IZR lo -> IZR hi <= last * IZR unit ->
  forallb (fun t => (lo <=? t) && (t <=? hi))%Z inputs = true ->
  forall r, (r < length inputs)%nat -> first <= IZR (at_ inputs r) / IZR unit <= last.
Proof.
  intros inputs unit lo hi first last Hu Hf Hl H r Hr. apply IZR_lt in Hu. rewrite forallb_forall in H.
  specialize (H (at_ inputs r) ltac:(now apply nth_In)). apply andb_prop in H. destruct H as [A B]. apply Z.leb_le, IZR_le in A, B.
  assert (E : IZR (at_ inputs r) / IZR unit * IZR unit = IZR (at_ inputs r)) by (field; lra).
  split; apply Rmult_le_reg_r with (IZR unit); lra.
Qed.

(** Expectations there are: of densities on an interval, and of weights of a list of outputs. *)
Lemma integral : forall c d, c <= d -> expectation (fun f a => is_RInt f c d a).
Proof.
  intros c d H. split; intros.
  - now apply (is_RInt_plus (V := R_NormedModule)).
  - now apply (is_RInt_scal (V := R_NormedModule)).
  - apply (is_RInt_le (fun _ => 0) f c d); [assumption | apply zero_mean | assumption |]. intros. apply H1.
Qed.

Lemma of_list : forall ys, expectation (fun f a => a = fold_right (fun y rest => f y + rest) 0 ys).
Proof.
  intro ys. split.
  - intros f g a b -> ->. induction ys; simpl; [|rewrite <- IHys]; ring.
  - intros k f a ->. induction ys; simpl; [|rewrite <- IHys]; ring.
  - intros f a -> H. induction ys as [|y ys IH]; simpl; [lra|]. specialize (H y). lra.
Qed.
