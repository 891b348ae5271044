(** Any finite mechanism, as a table of whole-number weights: rows are inputs, columns are outputs. *)
From Coq Require Import Bool Reals ZArith List Lra Lia.
From RB Require Import Privacy.
Import ListNotations.
Open Scope bool_scope.
Open Scope R_scope.

(** What a test can find between two rows: the sum over outputs of the excess of d p over n q. *)
Fixpoint excess (n d : Z) (p q : list Z) : Z :=
  match p, q with
  | a :: p, b :: q => (Z.max 0 (d * a - n * b) + excess n d p q)%Z
  | _, _ => 0%Z
  end.

(** The weight of an event, which has an output where its entry is true. *)
Fixpoint weight_of (event : list bool) (p : list Z) : Z :=
  match event, p with
  | chosen :: event, a :: p => ((if chosen then a else 0) + weight_of event p)%Z
  | _, _ => 0%Z
  end.

(** Row i and the rows after it up to number [reach], in both directions; n/d is at most exp(eps), and every excess is
    at most [most]. *)
Definition pair_holds (n d most : Z) (p q : list Z) : bool := (excess n d p q <=? most)%Z && (excess n d q p <=? most)%Z.

Definition row_holds (n d most : Z) (rows : list (list Z)) (i reach : nat) : bool :=
  Nat.ltb reach (length rows) &&
  forallb (fun j => pair_holds n d most (nth i rows []) (nth j rows [])) (seq i (reach - i + 1)).

Definition table_holds (n d most : Z) (rows : list (list Z)) (reach : list nat) : bool :=
  forallb (fun i => row_holds n d most rows i (nth i reach 0%nat)) (seq 0 (length rows)).

(** Every row has the total, so that weights over it are probabilities. *)
Definition rows_add_up (total : Z) (width : nat) (rows : list (list Z)) : bool :=
  forallb (fun row => (fold_right Z.add 0 row =? total)%Z && Nat.eqb (length row) width && forallb (fun a => 0 <=? a)%Z row) rows.

Lemma excess_pos : forall n d p q, (0 <= excess n d p q)%Z.
Proof. intros n d. induction p as [|a p IH]; intros [|b q]; simpl; try lia. specialize (IH q). lia. Qed.

Lemma events_below_excess : forall n d event p q, length p = length q ->
  (d * weight_of event p - n * weight_of event q <= excess n d p q)%Z.
Proof.
  intros n d event. induction event as [|chosen event IH]; intros [|a p] [|b q] H; simpl in *; try discriminate; try lia.
  - assert (E := excess_pos n d p q). lia.
  - specialize (IH p q ltac:(lia)). destruct chosen; lia.
Qed.

Theorem finite_table : forall n d most total width rows reach eps delta,
  rows_add_up total width rows = true -> table_holds n d most rows reach = true ->
  (0 < d)%Z -> (0 < total)%Z -> (0 <= n)%Z -> IZR n / IZR d <= exp eps -> IZR most <= delta * IZR d * IZR total ->
  forall i j event, (i < length rows)%nat -> (i <= j <= nth i reach 0%nat)%nat ->
  let P x := IZR (weight_of event (nth x rows [])) / IZR total in
  P i <= exp eps * P j + delta /\ P j <= exp eps * P i + delta.
Proof.
  intros n d most total width rows reach eps delta Hrows Htable Hd Ht Hn He Hm i j event Hi Hij P.
  unfold table_holds in Htable. rewrite forallb_forall in Htable.
  assert (Hrow := Htable i ltac:(apply in_seq; lia)). unfold row_holds in Hrow.
  apply andb_prop in Hrow. destruct Hrow as [Hr Hrow]. apply Nat.ltb_lt in Hr. rewrite forallb_forall in Hrow.
  assert (Hpair := Hrow j ltac:(apply in_seq; lia)). unfold pair_holds in Hpair.
  apply andb_prop in Hpair. destruct Hpair as [H1 H2]. apply Z.leb_le in H1, H2.
  unfold rows_add_up in Hrows. rewrite forallb_forall in Hrows.
  assert (Len : forall x, (x < length rows)%nat -> length (nth x rows []) = width).
  { intros x Hx. assert (R := Hrows (nth x rows []) ltac:(now apply nth_In)). apply andb_prop in R.
    destruct R as [R _]. apply andb_prop in R. destruct R as [_ R]. now apply Nat.eqb_eq in R. }
  assert (Pos : forall x, (x < length rows)%nat -> (0 <= weight_of event (nth x rows []))%Z).
  { intros x Hx. assert (R := Hrows (nth x rows []) ltac:(now apply nth_In)). apply andb_prop in R.
    destruct R as [_ R]. rewrite forallb_forall in R. revert R. generalize (nth x rows []). clear.
    induction event as [|c event IH]; intros [|a p] R; simpl; try lia.
    assert (0 <= a)%Z by (apply Z.leb_le, R; now left). specialize (IH p (fun z Hz => R z (or_intror Hz))). destruct c; lia. }
  assert (Dr : 0 < IZR d) by now apply IZR_lt. assert (Tr : 0 < IZR total) by now apply IZR_lt.
  assert (One : forall x y, (x < length rows)%nat -> (y < length rows)%nat ->
    (excess n d (nth x rows []) (nth y rows []) <= most)%Z -> P x <= exp eps * P y + delta).
  { intros x y Hx Hy H. unfold P.
    assert (E := events_below_excess n d event (nth x rows []) (nth y rows []) ltac:(now rewrite !Len)).
    assert (K := Pos y Hy). set (a := weight_of event (nth x rows [])) in *. set (b := weight_of event (nth y rows [])) in *.
    assert (L : (d * a <= n * b + most)%Z) by lia. apply IZR_le in L. rewrite plus_IZR, !mult_IZR in L. apply IZR_le in K.
    assert (N : IZR n <= exp eps * IZR d).
    { apply (Rmult_le_compat_r (IZR d)) in He; [|lra]. unfold Rdiv in He. rewrite Rmult_assoc, Rinv_l in He; lra. }
    assert (IZR n * IZR b <= exp eps * IZR d * IZR b) by (apply Rmult_le_compat_r; lra).
    apply Rmult_le_reg_r with (IZR d * IZR total); [now apply Rmult_lt_0_compat|].
    replace (IZR a / IZR total * (IZR d * IZR total)) with (IZR d * IZR a) by (field; lra).
    replace ((exp eps * (IZR b / IZR total) + delta) * (IZR d * IZR total))
      with (exp eps * IZR d * IZR b + delta * IZR d * IZR total) by (field; lra). lra. }
  split; apply One; try lia; assumption.
Qed.

(** A claim is refuted where n/d is at least exp(eps) and some excess is more than delta allows: the event of the
    outputs with an excess. *)
Fixpoint best_event (n d : Z) (p q : list Z) : list bool :=
  match p, q with
  | a :: p, b :: q => (0 <? d * a - n * b)%Z :: best_event n d p q
  | _, _ => []
  end.

Lemma best_is_excess : forall n d p q, (d * weight_of (best_event n d p q) p - n * weight_of (best_event n d p q) q = excess n d p q)%Z.
Proof.
  intros n d. induction p as [|a p IH]; intros [|b q]; simpl; try lia.
  specialize (IH q). destruct (Z.ltb_spec 0 (d * a - n * b)); lia.
Qed.

Theorem refuted : forall n d total p q eps delta, (0 < d)%Z -> (0 < total)%Z -> exp eps <= IZR n / IZR d ->
  (0 <= weight_of (best_event n d p q) q)%Z -> delta * IZR d * IZR total < IZR (excess n d p q) ->
  let P w := IZR (weight_of (best_event n d p q) w) / IZR total in exp eps * P q + delta < P p.
Proof.
  intros n d total p q eps delta Hd Ht He Hq H P. unfold P.
  assert (B := best_is_excess n d p q). set (a := weight_of (best_event n d p q) p) in *.
  set (b := weight_of (best_event n d p q) q) in *.
  assert (Dr : 0 < IZR d) by now apply IZR_lt. assert (Tr : 0 < IZR total) by now apply IZR_lt.
  rewrite <- B, minus_IZR, !mult_IZR in H. apply IZR_le in Hq.
  assert (N : exp eps * IZR d <= IZR n).
  { apply (Rmult_le_compat_r (IZR d)) in He; [|lra]. unfold Rdiv in He. rewrite Rmult_assoc, Rinv_l in He; lra. }
  assert (exp eps * IZR d * IZR b <= IZR n * IZR b) by (apply Rmult_le_compat_r; lra).
  apply Rmult_lt_reg_r with (IZR d * IZR total); [now apply Rmult_lt_0_compat|].
  replace (IZR a / IZR total * (IZR d * IZR total)) with (IZR d * IZR a) by (field; lra).
  replace ((exp eps * (IZR b / IZR total) + delta) * (IZR d * IZR total))
    with (exp eps * IZR d * IZR b + delta * IZR d * IZR total) by (field; lra). lra.
Qed.

(** Which true answers go to which row: those from the lower end to the upper one, which is among them if it is closed;
    an end that is missing is infinite. Numbers are in parts of [unit]. *)
Definition cell : Set := (option Z * option Z * bool)%type.

Definition goes (unit : Z) (c : cell) (x : R) : Prop :=
  let '(lower, upper, closed) := c in
  match lower with Some l => IZR l <= x * IZR unit | None => True end /\
  match upper with Some u => if closed then x * IZR unit <= IZR u else x * IZR unit < IZR u | None => True end.

(** Answers of the first cell and of the second, to its right, are more than [s] apart. *)
Definition far (s : Z) (c c' : cell) : bool :=
  match c, c' with
  | (_, Some u, closed), (Some l, _, _) => if closed then (s <? l - u)%Z else (s <=? l - u)%Z
  | _, _ => false
  end.

Definition reach_holds (s : Z) (cells : list cell) (reach : list nat) : bool :=
  forallb (fun i => forallb (fun j => far s (nth i cells (None, None, true)) (nth j cells (None, None, true)))
    (seq (S (nth i reach 0%nat)) (length cells - S (nth i reach 0%nat)))) (seq 0 (length cells)).

Lemma far_apart : forall unit s c c' x x', far s c c' = true -> goes unit c x -> goes unit c' x' -> IZR s < (x' - x) * IZR unit.
Proof.
  intros unit s [[lo [u|]] cl] [[[l|] up] cl'] x x' H [_ A] [B _]; simpl in *; try discriminate.
  destruct cl; [apply Z.ltb_lt in H; apply IZR_lt in H | apply Z.leb_le in H; apply IZR_le in H]; rewrite minus_IZR in H; lra.
Qed.

Lemma within_reach : forall unit s cells reach i j x x', (0 < unit)%Z -> reach_holds s cells reach = true ->
  (i <= j < length cells)%nat -> goes unit (nth i cells (None, None, true)) x -> goes unit (nth j cells (None, None, true)) x' ->
  Rabs (x - x') * IZR unit <= IZR s -> (j <= nth i reach 0)%nat.
Proof.
  intros unit s cells reach i j x x' Hu H Hij Gi Gj Hd. destruct (Compare_dec.le_lt_dec j (nth i reach 0%nat)) as [L|L]; [assumption|].
  exfalso. unfold reach_holds in H. rewrite forallb_forall in H. specialize (H i ltac:(apply in_seq; lia)).
  rewrite forallb_forall in H. specialize (H j ltac:(apply in_seq; lia)). assert (F := far_apart unit _ _ _ x x' H Gi Gj).
  assert (U : 0 < IZR unit) by now apply IZR_lt. assert (A := Rle_abs (x' - x)); rewrite Rabs_minus_sym in A. nra.
Qed.

(** The claim for answers: any two that are at most the sensitivity apart, whatever rows they go to. *)
Theorem table_of_answers : forall n d most total width rows reach eps delta unit s cells,
  rows_add_up total width rows = true -> table_holds n d most rows reach = true -> reach_holds s cells reach = true ->
  length cells = length rows -> (0 < d)%Z -> (0 < total)%Z -> (0 <= n)%Z -> (0 < unit)%Z ->
  IZR n / IZR d <= exp eps -> IZR most <= delta * IZR d * IZR total ->
  forall i j x x' event, (i < length rows)%nat -> (j < length rows)%nat -> goes unit (nth i cells (None, None, true)) x ->
  goes unit (nth j cells (None, None, true)) x' -> Rabs (x - x') * IZR unit <= IZR s ->
  let P x := IZR (weight_of event (nth x rows [])) / IZR total in P i <= exp eps * P j + delta.
Proof.
  intros n d most total width rows reach eps delta unit s cells Hrows Htable Hreach Hlen Hd Ht Hn Hu He Hm i j x x' event Hi Hj Gi Gj Hx P.
  destruct (Compare_dec.le_lt_dec i j) as [L|L].
  - assert (R : (i <= j < length cells)%nat) by (rewrite Hlen; split; assumption). assert (K := within_reach unit s cells reach i j x x' Hu Hreach R Gi Gj Hx).
    exact (proj1 (finite_table n d most total width rows reach eps delta Hrows Htable Hd Ht Hn He Hm i j event Hi (conj L K))).
  - rewrite Rabs_minus_sym in Hx. assert (R : (j <= i < length cells)%nat) by (rewrite Hlen; split; [apply PeanoNat.Nat.lt_le_incl|]; assumption). assert (K := within_reach unit s cells reach j i x' x Hu Hreach R Gj Gi Hx).
    apply (proj2 (finite_table n d most total width rows reach eps delta Hrows Htable Hd Ht Hn He Hm j i event Hj (conj (PeanoNat.Nat.lt_le_incl _ _ L) K))).
Qed.
