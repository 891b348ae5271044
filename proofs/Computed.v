(** How a file about one claim computes: Interval bounds what has numbers alone, and halves where there is a place. *)
From Coq Require Import Reals Lra.
From Interval Require Import Tactic.
Open Scope R_scope.

Ltac no_more := apply Rminus_le; interval with (i_prec 160).
Ltac less := apply Rminus_lt; interval with (i_prec 160).
Ltac halving A := intros; apply Rminus_le; interval with (i_prec 90, i_bisect A, i_autodiff A, i_depth 150).
Ltac near := first [assumption | apply Rabs_le; lra | lra].
