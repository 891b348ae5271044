(** What the theorems rest on: the real numbers of Coq's library, and nothing else. *)
From RB Require Import Privacy Bounds HockeyStick TruncatedLaplace UnboundedLaplace UnionLaplace TruncatedLaplaceDelta TruncatedGaussian
  TruncatedGaussianDelta UnboundedGaussian Lattice FiniteTable Limit.

Print Assumptions Privacy.events.
Print Assumptions Privacy.sequential.
Print Assumptions Bounds.bounded.
Print Assumptions Bounds.strictly.
Print Assumptions HockeyStick.on_the_line.
Print Assumptions TruncatedLaplace.truncated_laplace.
Print Assumptions TruncatedLaplaceDelta.adds_up.
Print Assumptions TruncatedLaplaceDelta.truncated_laplace_tests.
Print Assumptions TruncatedGaussian.truncated_gaussian.
Print Assumptions TruncatedGaussianDelta.truncated_gaussian_tests.
Print Assumptions TruncatedGaussianDelta.check_ok.
Print Assumptions UnboundedLaplace.laplace_tests.
Print Assumptions UnionLaplace.adds_up.
Print Assumptions UnionLaplace.union_laplace.
Print Assumptions UnboundedGaussian.gaussian_tests.
Print Assumptions Lattice.clamped_below.
Print Assumptions Lattice.rounded_answers.
Print Assumptions FiniteTable.table_of_answers.
Print Assumptions Limit.limit.
