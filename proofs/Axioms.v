(** What the theorems rest on: the real numbers of Coq's library, and nothing else. *)
From RB Require Import Privacy TruncatedLaplace TruncatedGaussian UnboundedLaplace Lattice FiniteTable.

Print Assumptions Privacy.events.
Print Assumptions Privacy.composition_of_epsilons.
Print Assumptions TruncatedLaplace.truncated_laplace.
Print Assumptions TruncatedGaussian.truncated_gaussian.
Print Assumptions UnboundedLaplace.unbounded_laplace.
Print Assumptions UnboundedLaplace.rounded_cell.
Print Assumptions Lattice.clamped.
Print Assumptions FiniteTable.finite_table.
