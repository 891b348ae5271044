(** A bound for all places of a range, which Interval finds by halving it. *)
From Coq Require Import Reals Lra.
From Interval Require Import Tactic.
Open Scope R_scope.

Ltac halving A := intros; apply Rminus_le; interval with (i_prec 90, i_bisect A, i_autodiff A, i_depth 150).
