(** Claims with a delta, for two laws with one crossing: left of it the first is the larger, right of it the other. *)
From Coq Require Import Reals Lra Psatz.
From Coquelicot Require Import Coquelicot.
From RB Require Import Privacy.
Open Scope R_scope.

(** The outputs on which a test may reject: [f y] is the probability that it does so at y, 0 or 1 for an event. *)
Definition test (f : R -> R) : Prop := forall y, 0 <= f y <= 1.

Lemma difference : forall (p q f : R -> R) k c d, ex_RInt (fun y => p y * f y) c d -> ex_RInt (fun y => q y * f y) c d ->
  ex_RInt (fun y => (p y - k * q y) * f y) c d /\
  RInt (fun y => (p y - k * q y) * f y) c d = RInt (fun y => p y * f y) c d - k * RInt (fun y => q y * f y) c d.
Proof.
  intros p q f k c d P Q.
  assert (K : is_RInt (fun y => (p y - k * q y) * f y) c d (RInt (fun y => p y * f y) c d - k * RInt (fun y => q y * f y) c d)).
  { apply (is_RInt_ext (fun y => minus (p y * f y) (scal k (q y * f y)))).
    - intros. unfold minus, plus, opp, scal; simpl; unfold mult; simpl. ring.
    - apply (is_RInt_minus (V := R_NormedModule)); [now apply (RInt_correct (V := R_CompleteNormedModule))|].
      apply (is_RInt_scal (V := R_NormedModule)). now apply (RInt_correct (V := R_CompleteNormedModule)). }
  split; [now eexists; apply K | now apply (is_RInt_unique (V := R_CompleteNormedModule))].
Qed.

Section Crossing.
Variables (p q : R -> R) (k m delta : R).
Hypothesis Hp : forall y, continuous p y.
Hypothesis Hq : forall y, continuous q y.
Hypothesis Hleft : forall y, y <= m -> k * q y <= p y.
Hypothesis Hright : forall y, m <= y -> p y <= k * q y.
Hypothesis Hdelta : 0 <= delta.

Lemma continuous_excess : forall y, continuous (fun y => p y - k * q y) y.
Proof.
  intro. apply (continuous_minus (V := R_NormedModule) p (fun y => k * q y)); [apply Hp|].
  apply (continuous_mult (K := R_AbsRing) (fun _ => k) q); [apply continuous_const | apply Hq].
Qed.

Lemma excess_integrable : forall c d, ex_RInt (fun y => p y - k * q y) c d.
Proof. intros. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros. apply continuous_excess. Qed.

(** No test finds more than the event that the output is left of the crossing. *)
Theorem one_crossing : forall c d f, c <= d ->
  (forall e, c <= e <= m -> e <= d -> RInt (fun y => p y - k * q y) c e <= delta) -> test f ->
  ex_RInt (fun y => p y * f y) c d -> ex_RInt (fun y => q y * f y) c d ->
  RInt (fun y => p y * f y) c d <= k * RInt (fun y => q y * f y) c d + delta.
Proof.
  intros c d f Hcd Hbound Hf P Q. destruct (difference p q f k c d P Q) as [I E].
  enough (RInt (fun y => (p y - k * q y) * f y) c d <= delta) by lra.
  set (e := Rmax c (Rmin m d)).
  assert (He : c <= e <= d) by (unfold e, Rmax, Rmin; destruct (Rle_dec m d); destruct (Rle_dec c _); lra).
  assert (I1 := ex_RInt_Chasles_1 (V := R_CompleteNormedModule) _ c e d He I).
  assert (I2 := ex_RInt_Chasles_2 (V := R_CompleteNormedModule) _ c e d He I).
  assert (S := RInt_Chasles (V := R_CompleteNormedModule) _ c e d I1 I2). unfold plus in S; simpl in S.
  assert (A : RInt (fun y => (p y - k * q y) * f y) c e <= delta).
  { destruct (Rle_dec c m) as [L|L].
    - assert (e <= m) by (unfold e, Rmax, Rmin; destruct (Rle_dec m d); destruct (Rle_dec c _); lra).
      apply Rle_trans with (RInt (fun y => p y - k * q y) c e); [|apply Hbound; lra].
      apply RInt_le; [lra | assumption | apply excess_integrable |].
      intros y Hy. assert (H1 := Hleft y ltac:(lra)). assert (T := Hf y). nra.
    - assert (Ec : e = c) by (unfold e, Rmax, Rmin; destruct (Rle_dec m d); destruct (Rle_dec c _); lra).
      rewrite Ec, (RInt_point (V := R_CompleteNormedModule)). exact Hdelta. }
  assert (B : RInt (fun y => (p y - k * q y) * f y) e d <= 0).
  { apply Rle_trans with (RInt (fun _ => 0) e d).
    - apply RInt_le; [lra | assumption | apply ex_RInt_const |]. intros y Hy.
      assert (Hm : m <= y) by (revert Hy; unfold e, Rmax, Rmin; destruct (Rle_dec m d); destruct (Rle_dec c _); lra).
      assert (H1 := Hright y Hm). assert (T := Hf y). nra.
    - rewrite (RInt_const (V := R_CompleteNormedModule)). unfold scal; simpl; unfold mult; simpl. lra. }
  lra.
Qed.
End Crossing.

(** The same on the whole line: [P] and [Q] are the probabilities that the test rejects. *)
Definition rejects (p f : R -> R) (P : R) : Prop :=
  is_RInt_gen (fun y => p y * f y) (Rbar_locally m_infty) (Rbar_locally p_infty) P.

Theorem on_the_line : forall p q f k delta P Q, rejects p f P -> rejects q f Q -> 0 <= k ->
  (forall c d, c <= d -> ex_RInt (fun y => p y * f y) c d -> ex_RInt (fun y => q y * f y) c d ->
    RInt (fun y => p y * f y) c d <= k * RInt (fun y => q y * f y) c d + delta) ->
  P <= k * Q + delta.
Proof.
  intros p q f k delta P Q HP HQ Hk H. apply le_epsilon. intros r Hr.
  set (eta := mkposreal (r / (1 + k)) ltac:(apply Rdiv_lt_0_compat; lra)).
  assert (A := HP (ball P eta) (locally_ball P eta)). assert (B := HQ (ball Q eta) (locally_ball Q eta)).
  unfold filtermapi in A, B.
  assert (C : filter_prod (Rbar_locally m_infty) (Rbar_locally p_infty) (fun ab : R * R => fst ab < 0 < snd ab)).
  { apply (Filter_prod _ _ _ (fun x => x < 0) (fun x => 0 < x)); [now exists 0 | now exists 0 |]. simpl. intros; lra. }
  destruct (filter_ex (F := filter_prod (Rbar_locally m_infty) (Rbar_locally p_infty)) _ (filter_and _ _ C (filter_and _ _ A B)))
    as [[c d] [Hcd [[P' [HP' BP]] [Q' [HQ' BQ]]]]]. simpl in *.
  assert (K := H c d ltac:(lra) ltac:(now exists P') ltac:(now exists Q')).
  apply (is_RInt_unique (V := R_CompleteNormedModule)) in HP', HQ'.
  assert (BP' : Rabs (P' - P) < eta) by exact BP. assert (BQ' : Rabs (Q' - Q) < eta) by exact BQ.
  replace (RInt (fun y => p y * f y) c d) with P' in K by (symmetry; exact HP').
  replace (RInt (fun y => q y * f y) c d) with Q' in K by (symmetry; exact HQ').
  apply Rabs_def2 in BP', BQ'. simpl in BP', BQ'.
  assert (E : r / (1 + k) * (1 + k) = r) by (field; lra). nra.
Qed.

(** Seen from the other end. *)
Lemma mirror : forall (g h : R -> R) c d, (forall y, h y = g (- y)) -> ex_RInt g c d ->
  ex_RInt h (- d) (- c) /\ RInt h (- d) (- c) = RInt g c d.
Proof.
  intros g h c d E I.
  assert (K : is_RInt h (- d) (- c) (RInt g c d)).
  { assert (J := RInt_correct (V := R_CompleteNormedModule) _ _ _ I). apply (is_RInt_swap (V := R_NormedModule)) in J.
    assert (J' : is_RInt g (- - d) (- - c) (opp (RInt g c d))) by now rewrite !Ropp_involutive.
    apply (is_RInt_comp_opp (V := R_NormedModule)) in J'. apply (is_RInt_opp (V := R_NormedModule)) in J'.
    rewrite (opp_opp (G := R_AbelianGroup)) in J'. revert J'. apply is_RInt_ext. intros y _.
    rewrite (opp_opp (G := R_AbelianGroup)). now rewrite E. }
  split; [now exists (RInt g c d) | now apply (is_RInt_unique (V := R_CompleteNormedModule))].
Qed.
