(** Laplace noise truncated to several intervals: what one pair of answers loses, pairs inside of it lose no more. *)
From Coq Require Import Reals ZArith Lra Psatz List.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy Bounds HockeyStick UnboundedLaplace.
Import ListNotations.
Open Scope R_scope.

(** The probability that x plus noise lies in one of the spans, and the density of the truncated output. *)
Fixpoint mass (b : R) (spans : list (R * R)) (x : R) : R :=
  match spans with [] => 0 | (l, u) :: rest => at_most b (u - x) - at_most b (l - x) + mass b rest x end.
Definition truncated (b : R) (spans : list (R * R)) (x y : R) : R := exp (- Rabs (y - x) / b) / (2 * b * mass b spans x).
(** Spans ascend and do not meet: where two overlapped, [mass] would count what they share twice. *)
Definition starts_after (u : R) (spans : list (R * R)) : Prop := match spans with [] => True | (l, _) :: _ => u < l end.
Fixpoint proper (spans : list (R * R)) : Prop := match spans with [] => True | (l, u) :: rest => l < u /\ starts_after u rest /\ proper rest end.

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
  induction spans as [|[l u] rest IH]; intros x x' Hb H; simpl; [lra|]. destruct H as (Hlu & _ & Hr).
  assert (A := span_moves b l u x x' Hb Hlu). assert (B := IH x x' Hb Hr). lra.
Qed.

Lemma mass_pos : forall b spans x, 0 < b -> proper spans -> spans <> [] -> 0 < mass b spans x.
Proof.
  induction spans as [|[l u] rest IH]; intros x Hb H N; [now elim N|]. destruct H as (Hlu & _ & Hr). simpl.
  assert (A := span_pos b l u x Hb Hlu). destruct rest as [|each rest]; [simpl; lra|].
  assert (B := IH x Hb Hr ltac:(discriminate)). lra.
Qed.

(** The density is one: over all spans, it adds up to 1. *)
Lemma share : forall b all x l u, 0 < b -> l <= u -> mass b all x <> 0 ->
  is_RInt (truncated b all x) l u ((at_most b (u - x) - at_most b (l - x)) / mass b all x).
Proof.
  intros b all x l u Hb Hlu Hm. assert (I := at_most_is_integral b x l u Hb Hlu).
  apply (is_RInt_scal (V := R_NormedModule) _ _ _ (/ mass b all x)) in I.
  replace ((at_most b (u - x) - at_most b (l - x)) / mass b all x) with (scal (/ mass b all x) (at_most b (u - x) - at_most b (l - x)))
    by (unfold scal; simpl; unfold mult; simpl; unfold Rdiv; ring).
  eapply is_RInt_ext; [|exact I]. intros y _. unfold truncated, density, scal; simpl; unfold mult; simpl. field. lra.
Qed.

Definition probability (p : R -> R) (spans : list (R * R)) : R := fold_right (fun span rest => RInt p (fst span) (snd span) + rest) 0 spans.

Theorem adds_up : forall b spans x, 0 < b -> proper spans -> spans <> [] -> probability (truncated b spans x) spans = 1.
Proof.
  intros b all x Hb Hp Hn. assert (M := mass_pos b all x Hb Hp Hn).
  assert (S : forall spans, proper spans -> probability (truncated b all x) spans = mass b spans x / mass b all x).
  { induction spans as [|[l u] rest IH]; simpl; [intros _; field; lra|]. intros (Hlu & _ & Hr). rewrite (IH Hr).
    rewrite (is_RInt_unique (V := R_CompleteNormedModule) _ _ _ _ (share b all x l u Hb ltac:(lra) ltac:(lra))). field. lra. }
  rewrite (S all Hp). field. lra.
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

(** Between two neighbouring places where an answer passes an end, a mass is c + d v + e w, with v w = k constant. *)
Section Piece.
Variables (c d e k v w : R).
Hypothesis Hvw : v * w = k.
Hypothesis Hv : 0 < v <= 1.
Hypothesis Hw : 0 < w <= 1.

(** What proves that it is not negative, for all v and w, from its two ends (where w or v is 1) and its bend. *)
Definition fine : Prop :=
  (0 <= d /\ 0 <= c + 2 * d * k /\ 0 <= c + d * k + e) \/ (0 <= e /\ 0 <= c + 2 * e * k /\ 0 <= c + d + e * k) \/
  (d <= 0 /\ 0 <= c + d * k + e /\ 0 <= c + d + e * k) \/ (0 <= d /\ 0 <= e /\ c * c <= 4 * (d * e * k)) \/
  (0 <= c /\ 0 <= c + d /\ 0 <= c + e /\ 0 <= c + d + e).

Lemma fine_ok : fine -> 0 <= c + d * v + e * w.
Proof.
  assert (K : 0 < k <= 1) by (rewrite <- Hvw; nra).
  intros [(D & B & L)|[(E & B & H)|[(D & L & H)|[(D & E & B)|(C & D & E & B)]]]].
  - replace (c + d * v + e * w) with (w * (c + d * k + e) + (1 - w) * (c + 2 * d * k) + d * (v * ((1 - w) * (1 - w)))) by (rewrite <- Hvw; ring).
    assert (0 <= v * ((1 - w) * (1 - w))) by (apply Rmult_le_pos; [lra | apply Rle_0_sqr]).
    apply Rplus_le_le_0_compat; [apply Rplus_le_le_0_compat|]; apply Rmult_le_pos; lra.
  - replace (c + d * v + e * w) with (v * (c + d + e * k) + (1 - v) * (c + 2 * e * k) + e * (w * ((1 - v) * (1 - v)))) by (rewrite <- Hvw; ring).
    assert (0 <= w * ((1 - v) * (1 - v))) by (apply Rmult_le_pos; [lra | apply Rle_0_sqr]).
    apply Rplus_le_le_0_compat; [apply Rplus_le_le_0_compat|]; apply Rmult_le_pos; lra.
  - destruct (Req_dec k 1) as [O|O]; [assert (v = 1) by nra; assert (w = 1) by nra; nra|].
    assert (W : k <= w) by (rewrite <- Hvw; nra). apply Rmult_le_reg_l with (1 - k); [lra|]. rewrite Rmult_0_r.
    replace ((1 - k) * (c + d * v + e * w)) with ((w - k) * (c + d * k + e) + (1 - w) * (c + d + e * k) + - d * ((1 - k) * ((1 - w) * (1 - v))))
      by (rewrite <- Hvw; ring).
    assert (0 <= (1 - k) * ((1 - w) * (1 - v))) by (apply Rmult_le_pos; [lra | apply Rmult_le_pos; lra]).
    apply Rplus_le_le_0_compat; [apply Rplus_le_le_0_compat|]; apply Rmult_le_pos; lra.
  - assert (P : 0 <= d * v + e * w) by (apply Rplus_le_le_0_compat; apply Rmult_le_pos; lra).
    destruct (Rle_dec 0 c) as [N|N]; [lra|]. destruct (Rle_dec (- c) (d * v + e * w)) as [M|M]; [lra | exfalso].
    assert (Q : 0 <= (d * v - e * w) * (d * v - e * w)) by apply Rle_0_sqr. rewrite <- Hvw in B.
    assert ((d * v + e * w) * (d * v + e * w) < - c * - c) by (apply Rmult_le_0_lt_compat; lra). nra.
  - replace (c + d * v + e * w) with (c * ((1 - v) * (1 - w)) + (c + d) * (v * (1 - w)) + (c + e) * ((1 - v) * w) + (c + d + e) * (v * w)) by ring.
    repeat apply Rplus_le_le_0_compat; (apply Rmult_le_pos; [assumption | apply Rmult_le_pos; lra]).
Qed.
End Piece.

(** The parts of a mass at x between low and high: an end is passed by all of them, or by none. *)
Definition flat (passed : bool) (e : R) : R := if passed then 0 else 1.
Definition rising (b high : R) (passed : bool) (e : R) : R := if passed then 0 else - (exp ((high - e) / b) / 2).
Definition falling (b low : R) (passed : bool) (e : R) : R := if passed then exp ((e - low) / b) / 2 else 0.
Fixpoint total (part : bool -> R -> R) (spans : list (R * R)) (sides : list (bool * bool)) : R :=
  match spans, sides with (l, u) :: rest, (p, q) :: more => part q u - part p l + total part rest more | _, _ => 0 end.
Definition is_passed (low high : R) (passed : bool) (e : R) : Prop := if passed then e <= low else high <= e.
Fixpoint are_passed (low high : R) (spans : list (R * R)) (sides : list (bool * bool)) : Prop :=
  match spans, sides with
  | (l, u) :: rest, (p, q) :: more => is_passed low high p l /\ is_passed low high q u /\ are_passed low high rest more
  | [], [] => True | _, _ => False end.

Lemma end_on_piece : forall b low high x p e, 0 < b -> low <= x <= high -> is_passed low high p e ->
  at_most b (e - x) = flat p e + rising b high p e * exp ((x - high) / b) + falling b low p e * exp ((low - x) / b).
Proof.
  intros b low high x [|] e Hb Hx He; unfold is_passed, flat, rising, falling in *.
  - rewrite at_most_below by lra. replace ((e - x) / b) with ((e - low) / b + (low - x) / b) by (field; lra). rewrite exp_plus. field.
  - rewrite at_most_above by lra. replace (- (e - x) / b) with ((high - e) / b + (x - high) / b) by (field; lra). rewrite exp_plus. field.
Qed.

Lemma mass_on_piece : forall b low high x, 0 < b -> low <= x <= high -> forall spans sides, are_passed low high spans sides ->
  mass b spans x = total flat spans sides + total (rising b high) spans sides * exp ((x - high) / b)
    + total (falling b low) spans sides * exp ((low - x) / b).
Proof.
  intros b low high x Hb Hx. induction spans as [|[l u] rest IH]; intros [|[p q] more] H; try contradiction; simpl in *; [ring|].
  destruct H as (P & Q & H). rewrite (end_on_piece b low high x p l), (end_on_piece b low high x q u), (IH more) by assumption. ring.
Qed.

Definition spare (k' k : R) (less more : R) : R := k' * less + - (k * more).

(** A pair of answers x, x' that moves between two such places: what it loses is bounded at all of them. *)
Lemma piece : forall b spans eps s low high h h' sides sides', 0 < b ->
  are_passed (low + h) (high + h) spans sides -> are_passed (low + h') (high + h') spans sides' ->
  fine (spare (exp eps) (exp (s / b)) (total flat spans sides') (total flat spans sides))
    (spare (exp eps) (exp (s / b)) (total (rising b (high + h')) spans sides') (total (rising b (high + h)) spans sides))
    (spare (exp eps) (exp (s / b)) (total (falling b (low + h')) spans sides') (total (falling b (low + h)) spans sides)) (exp ((low - high) / b)) ->
  forall a, low <= a <= high -> exp (s / b) * mass b spans (a + h) <= exp eps * mass b spans (a + h').
Proof.
  intros b spans eps s low high h h' sides sides' Hb H H' F a Ha. assert (Hi := div_pos b Hb).
  apply fine_ok with (v := exp ((a - high) / b)) (w := exp ((low - a) / b)) in F.
  - rewrite (mass_on_piece b (low + h) (high + h) (a + h)) with (sides := sides) by (assumption || lra).
    rewrite (mass_on_piece b (low + h') (high + h') (a + h')) with (sides := sides') by (assumption || lra).
    replace (a + h - (high + h)) with (a - high) by ring. replace (a + h' - (high + h')) with (a - high) by ring.
    replace (low + h - (a + h)) with (low - a) by ring. replace (low + h' - (a + h')) with (low - a) by ring. unfold spare in F. lra.
  - rewrite <- exp_plus. f_equal. field. lra.
  - split; [apply exp_pos | apply exp_le_1; unfold Rdiv; nra].
  - split; [apply exp_pos | apply exp_le_1; unfold Rdiv; nra].
Qed.

(** The same in whole numbers. *)
Section Computed_.
Variable p : positive.
Definition least (a : option (Z * Z)) : bool := match a with Some (l, _) => (0 <=? l)%Z | None => false end.
Definition scaled_in (k x : option (Z * Z)) : option (Z * Z) := match x with Some (Z0, Z0) => Some (0, 0)%Z | _ => product_in p k x end.
Definition spare_in (k' k less more : option (Z * Z)) : option (Z * Z) := sum_in (scaled_in k' less) (opposite_in (scaled_in k more)).
Definition fine_in (c d e k : option (Z * Z)) : bool :=
  let dk := product_in p d k in let ek := product_in p e k in
  let low := least (sum_in (sum_in c dk) e) in let high := least (sum_in (sum_in c d) ek) in
  (low && (least d && least (sum_in c (sum_in dk dk)) || high && least (opposite_in d)))
  || (high && least e && least (sum_in c (sum_in ek ek)))
  || (least d && least e && let dek := product_in p dk e in let two := sum_in dek dek in least (sum_in (sum_in two two) (opposite_in (product_in p c c))))
  || (least c && least (sum_in c d) && least (sum_in c e) && least (sum_in (sum_in c d) e)).

Lemma least_ok : forall a x, least a = true -> around p a x -> 0 <= x.
Proof.
  intros [[l h]|] x H A; [|discriminate]. apply Z.leb_le, IZR_le in H. destruct (A _ _ eq_refl) as [B _].
  unfold at_least in B. assert (P := one_pos' p). nra.
Qed.

Lemma scaled_ok : forall a b x y, around p a x -> around p b y -> around p (scaled_in a b) (x * y).
Proof.
  intros a [[l h]|] x y A B; unfold scaled_in; [|now apply product_ok].
  destruct l as [|l|l]; destruct h as [|h|h]; try (now apply product_ok). destruct (B _ _ eq_refl) as [L H].
  unfold at_least, Bounds.at_most in L, H. assert (P := one_pos' p). assert (Y : y = 0) by nra. subst y. rewrite Rmult_0_r.
  intros l h E. injection E as <- <-. unfold at_least, Bounds.at_most. lra.
Qed.

Lemma fine_in_ok : forall ci di ei ki c d e k, around p ci c -> around p di d -> around p ei e -> around p ki k ->
  fine_in ci di ei ki = true -> fine c d e k.
Proof.
  intros ci di ei ki c d e k C D E K H. unfold fine_in in H. cbv zeta in H. unfold fine.
  assert (DK := product_ok p _ _ _ _ D K). assert (EK := product_ok p _ _ _ _ E K).
  assert (low : least (sum_in (sum_in ci (product_in p di ki)) ei) = true -> 0 <= c + d * k + e)
    by (intro L; apply (least_ok _ _ L); now repeat apply sum_ok).
  assert (high : least (sum_in (sum_in ci di) (product_in p ei ki)) = true -> 0 <= c + d + e * k)
    by (intro L; apply (least_ok _ _ L); now repeat apply sum_ok).
  rewrite !Bool.orb_true_iff, !Bool.andb_true_iff in H.
  rewrite !Bool.orb_true_iff, !Bool.andb_true_iff in H.
  destruct H as [[[[L [[Hd B]|[H B]]]|[[H He] B]]|[[Hd He] B]]|[[[A B] A'] B']].
  - left. apply (least_ok _ _ Hd) in D. apply low in L. apply (least_ok _ (c + (d * k + d * k))) in B; [lra | now repeat apply sum_ok].
  - right; right; left. apply low in L. apply high in H. apply (least_ok _ (- d)) in B; [lra | now apply opposite_ok].
  - right; left. apply (least_ok _ _ He) in E. apply high in H. apply (least_ok _ (c + (e * k + e * k))) in B; [lra | now repeat apply sum_ok].
  - right; right; right; left. assert (Pd := least_ok _ _ Hd D). assert (Pe := least_ok _ _ He E).
    assert (DEK := product_ok p _ _ _ _ DK E).
    apply (least_ok _ (d * k * e + d * k * e + (d * k * e + d * k * e) + - (c * c))) in B; [lra|].
    repeat apply sum_ok; try assumption. apply opposite_ok. now apply product_ok.
  - right; right; right; right. apply (least_ok _ c) in A; [|assumption]. apply (least_ok _ (c + d)) in B; [|now apply sum_ok].
    apply (least_ok _ (c + e)) in A'; [|now apply sum_ok]. apply (least_ok _ (c + d + e)) in B'; [lra | now repeat apply sum_ok].
Qed.

Lemma fine_by : forall k1 k2 c1 c2 d1 d2 e1 e2 k,
  (let x1 := enclose p k1 in let x2 := enclose p k2 in
   fine_in (spare_in x1 x2 (enclose p c1) (enclose p c2)) (spare_in x1 x2 (enclose p d1) (enclose p d2))
     (spare_in x1 x2 (enclose p e1) (enclose p e2)) (enclose p k)) = true ->
  fine (spare (value k1) (value k2) (value c1) (value c2)) (spare (value k1) (value k2) (value d1) (value d2))
    (spare (value k1) (value k2) (value e1) (value e2)) (value k).
Proof.
  intros until k. cbv zeta. apply fine_in_ok; unfold spare, spare_in;
    try (apply sum_ok; [|apply opposite_ok]; apply scaled_ok); apply enclose_ok.
Qed.
End Computed_.

Ltac fine_computed p :=
  cbn [total flat rising falling];
  lazymatch goal with
  | |- fine (spare ?a ?b ?c ?c') (spare _ _ ?d ?d') (spare _ _ ?e ?e') ?k =>
    let a := reify a in let b := reify b in let c := reify c in let c' := reify c' in let d := reify d in let d' := reify d' in
    let e := reify e in let e' := reify e' in let k := reify k in
    apply (fine_by p a b c c' d d' e e' k); vm_cast_no_check (eq_refl true)
  end.

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
