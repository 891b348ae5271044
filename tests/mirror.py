"""Which test file tests which module: the one of the same name at the same place, or the one that is named here.

`src/rangebound/<path>/<name>.py` is tested by `tests/<path>/test_<name>.py`. Modules that only make sense together
(the four boundings, the parts of the exact draw) share a test that is named after what they do together.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rangebound"
TESTS = ROOT / "tests"

TOGETHER: dict[str, tuple[str, ...]] = {
    "__main__.py": ("cli/test_start.py",),
    "accounting/adaptive/curve_rows.py": ("accounting/adaptive/test_pair_rows.py",),
    "audit/distinguishing_events.py": ("audit/test_attack.py",),
    "bounding/": ("bounding/test_boundings.py",),
    "cli/app.py": ("cli/test_start.py", "cli/test_mistakes.py"),
    "cli/mechanism_options.py": ("cli/test_mistakes.py", "cli/test_account_command.py"),
    "cli/options.py": ("cli/test_mistakes.py",),
    "cli/plan_command.py": ("cli/test_release_command.py",),
    "cli/printing.py": ("cli/test_hostile.py", "cli/test_release_command.py"),
    "finite/table_errors.py": ("finite/test_finite_mechanism.py",),
    "ledger/forks.py": ("ledger/test_sqlite.py", "ledger/test_postgres_store.py"),
    "ledger/postgres_place.py": ("ledger/test_postgres_store.py",),
    "ledger/postgres_schema.py": ("ledger/test_postgres_store.py", "ledger/test_roles.py"),
    "ledger/postgres_transaction.py": ("ledger/test_postgres_store.py", "ledger/test_book.py"),
    "ledger/user_folder.py": ("ledger/test_client_head.py",),
    "law/atomic_law.py": ("law/test_finite_law.py", "test_staircase.py"),
    "law/lattice_law.py": ("test_staircase.py", "test_discrete_laplace.py"),
    "learn/sklearn/": ("learn/sklearn/test_estimators.py",),
    "learn/torch/accounts/fisher_loss.py": ("learn/torch/accounts/test_accounts.py",),
    "learn/torch/accounts/renyi_watcher.py": ("learn/torch/accounts/test_accounts.py",),
    "learn/torch/clipping_norm.py": ("learn/torch/test_optimizer.py", "learn/torch/test_misuse.py"),
    "learn/torch/gradients/clamped.py": ("learn/torch/gradients/test_per_example.py",),
    "learn/torch/gradients/bad_examples.py": ("learn/torch/test_bad_examples.py",),
    "learn/torch/gradients/chain_of_layers.py": ("learn/torch/gradients/test_per_example.py",),
    "learn/torch/gradients/doubles.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/example_rows.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/module_state.py": ("learn/torch/gradients/test_isolation.py",),
    "learn/torch/gradients/one_pass.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/outer_products.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/rules/": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/survey.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/tape.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/token_rows.py": ("learn/torch/gradients/test_rules.py",),
    "learn/torch/gradients/triton_clamped.py": ("learn/torch/test_gpu.py",),
    "learn/torch/loader.py": ("learn/torch/test_optimizer.py", "learn/torch/test_misuse.py"),
    "learn/torch/noise_source.py": ("learn/torch/test_tensor_draw.py", "learn/torch/test_optimizer.py"),
    "learn/torch/privacy_engine.py": ("learn/torch/test_optimizer.py", "learn/torch/test_misuse.py"),
    "learn/torch/step_mechanism.py": ("learn/torch/test_optimizer.py", "learn/torch/accounts/test_accounts.py"),
    "ledger/charge_checks.py": ("ledger/test_book.py", "ledger/test_requests.py"),
    "noise/": ("noise/test_families.py", "noise/test_family.py"),
    "plot/": ("plot/test_plot.py",),
    "privacy/counterexample.py": ("privacy/test_worst.py", "privacy/test_claim.py"),
    "privacy/neighbours.py": ("privacy/test_worst.py",),
    "privacy/pairs/integrals.py": ("privacy/pairs/test_exact.py", "privacy/pairs/test_exponential_family.py"),
    "privacy/pairs/laplace_pair.py": ("privacy/pairs/test_divergences.py", "privacy/test_peak.py"),
    "privacy/pairs/laplace_points.py": ("privacy/pairs/test_truncated_grid.py", "privacy/test_peak.py"),
    "privacy/pairs/laplace_spans.py": ("privacy/unions/test_long_unions.py", "privacy/pairs/test_exact.py"),
    "privacy/pairs/mapped.py": ("privacy/pairs/test_divergences.py", "privacy/pairs/test_exact.py"),
    "privacy/pairs/span_ends.py": ("privacy/pairs/test_exact.py",),
    "privacy/pairs/rounded_laplace.py": ("privacy/windows/test_laplace_rounded.py",),
    "privacy/pairs/lattice_sums.py": ("privacy/pairs/test_exact.py", "privacy/pairs/test_exponential_family.py"),
    "privacy/pairs/truncated.py": ("privacy/pairs/test_divergences.py", "privacy/pairs/test_exact.py"),
    "privacy/pairs/truncated_gaussian.py": ("privacy/pairs/test_exact.py", "privacy/pairs/test_exponential_family.py"),
    "privacy/pairs/truncated_gaussian_grid.py": ("privacy/pairs/test_truncated_grid.py",),
    "privacy/pairs/truncated_laplace.py": ("privacy/test_peak.py", "privacy/pairs/test_divergences.py"),
    "privacy/pairs/truncated_laplace_grid.py": ("privacy/pairs/test_truncated_grid.py",),
    "privacy/closed_forms.py": ("privacy/test_worst.py",),
    "privacy/search/cell_bound.py": ("privacy/search/test_branch_and_bound.py",),
    "privacy/search/delta_objective.py": ("privacy/search/test_branch_and_bound.py", "privacy/search/test_ceilings.py"),
    "privacy/search/endless_lattice.py": ("privacy/search/test_ceilings.py", "privacy/search/test_rounded_lattice.py"),
    "privacy/search/loss_objective.py": ("privacy/search/test_branch_and_bound.py", "privacy/search/test_ceilings.py"),
    "privacy/search/objective.py": ("privacy/search/test_branch_and_bound.py", "privacy/search/test_ceilings.py"),
    "privacy/search/renyi_objective.py": ("privacy/search/test_branch_and_bound.py", "privacy/search/test_ceilings.py"),
    "privacy/setting.py": ("privacy/test_worst.py",),
    "privacy/supremum.py": ("privacy/test_worst.py", "matrix/test_worst.py"),
    "privacy/unions/laplace_interval.py": ("privacy/test_peak.py", "privacy/unions/test_laplace_union.py"),
    "privacy/unions/span_masses.py": ("privacy/unions/test_laplace_union.py", "privacy/unions/test_long_unions.py"),
    "privacy/windows/segments.py": (
        "privacy/windows/test_gaussian_hockey_stick.py",
        "privacy/windows/test_enclosures.py",
    ),
    "release/demo.py": ("release/test_run.py",),
    "release/dummy/column_hints.py": ("release/dummy/test_made_up_rows.py",),
    "release/engine/dialect.py": ("release/engine/test_engines.py", "release/sql/test_made_column.py"),
    "release/engine/duckdb_dialect.py": ("release/engine/test_engines.py", "release/sql/test_made_column.py"),
    "release/engine/spark_dialect.py": ("release/engine/test_engines.py", "release/sql/test_made_column.py"),
    "release/engine/postgres_arithmetic.py": ("release/engine/test_postgres.py", "release/sql/test_made_column.py"),
    "release/engine/postgres_dialect.py": ("release/engine/test_postgres.py", "release/sql/test_made_column.py"),
    "release/engine/duckdb_table.py": ("release/engine/test_duckdb.py", "release/engine/test_damage.py"),
    "release/engine/frame.py": ("release/engine/test_engines.py",),
    "release/engine/interface.py": ("release/engine/test_engines.py",),
    "release/engine/open_engine.py": ("release/engine/test_engines.py",),
    "release/engine/parquet.py": ("release/engine/test_engines.py", "release/engine/test_damage.py"),
    "release/engine/spark.py": ("release/engine/test_engines.py", "release/engine/test_connect.py"),
    "release/noise/crosstab_measurements.py": ("release/noise/test_workload_publisher.py",),
    "release/noise/draw.py": ("release/test_range.py", "release/test_run.py"),
    "release/noise/marginal_projection.py": ("release/noise/test_marginal_publisher.py",),
    "release/noise/noisy_coordinates.py": (
        "release/noise/test_publishers.py",
        "release/output/test_table_certificate.py",
        "release/test_run.py",
    ),
    "release/noise/quantile_publisher.py": ("release/noise/test_publishers.py",),
    "release/noise/selection_publisher.py": ("release/plan/kinds/test_selection_kind.py",),
    "release/noise/series_measurements.py": ("release/noise/test_workload_publisher.py",),
    "release/noise/tree_measurements.py": ("release/noise/test_workload_publisher.py",),
    "release/noise/strategies/block_strategy.py": ("release/noise/strategies/test_series_design.py",),
    "release/noise/strategies/contributions.py": ("release/noise/strategies/test_marginal_strategy.py",),
    "release/noise/strategies/factor_strategy.py": ("release/noise/strategies/test_series_design.py",),
    "release/noise/strategies/ranges.py": ("release/noise/strategies/test_series_design.py",),
    "release/noise/strategies/tree.py": ("release/noise/strategies/test_tree_design.py",),
    "release/noise/strategies/tree_strategy.py": ("release/noise/strategies/test_tree_design.py",),
    "release/output/ledger_entry.py": ("release/test_run.py", "release/test_killed.py"),
    "release/output/rendering.py": ("release/output/test_table.py",),
    "release/output/report.py": ("release/output/test_table.py",),
    "release/output/suggestion.py": ("release/test_suggest.py",),
    "release/asked_in_sql.py": ("release/test_sql_oracle.py", "cli/test_sql_command.py"),
    "release/output/answer.py": ("release/test_sql_oracle.py", "cli/test_sql_command.py"),
    "release/plan/asking/": ("release/plan/asking/test_translation.py", "release/plan/asking/test_hostile_sql.py"),
    "release/plan/field_effects.py": ("release/plan/test_field_table.py",),
    "release/plan/questions.py": ("release/plan/kinds/test_kind.py", "release/plan/test_toml.py"),
    "release/plan/condition.py": ("release/plan/test_toml.py", "release/test_oracle.py"),
    "release/plan/expressions/functions.py": (
        "release/plan/expressions/test_typed.py",
        "release/sql/test_made_column.py",
    ),
    "release/plan/expressions/nodes.py": ("release/plan/expressions/test_reading.py",),
    "release/plan/expressions/public_range.py": (
        "release/plan/expressions/test_typed.py",
        "release/sql/test_made_column.py",
    ),
    "release/plan/expressions/value_type.py": ("release/plan/expressions/test_typed.py",),
    "release/plan/faults.py": ("release/plan/test_toml.py",),
    "release/plan/fields.py": ("release/plan/test_toml.py",),
    "release/plan/groupings.py": ("release/test_neighbours.py", "release/engine/test_engines.py"),
    "release/plan/kinds/": ("release/plan/kinds/test_sensitivity.py", "release/test_oracle.py"),
    "release/plan/measure.py": ("release/plan/kinds/test_sensitivity.py", "release/test_oracle.py"),
    "release/plan/model.py": ("release/plan/test_toml.py",),
    "postgres_address.py": ("release/engine/test_postgres.py", "ledger/test_postgres_store.py"),
    "release/plan/ranged_column.py": ("release/plan/kinds/test_weighted_kind.py", "release/plan/kinds/test_ratio.py"),
    "release/plan/table_schema.py": ("release/plan/test_toml.py",),
    "release/plan/sensitivity.py": ("release/plan/kinds/test_sensitivity.py", "release/test_neighbours.py"),
    "release/plan/unit.py": ("release/plan/test_toml.py",),
    "release/plan/workloads.py": ("release/noise/test_marginal_publisher.py",),
    "release/plan/words.py": ("release/output/test_scope.py", "release/output/test_explain.py"),
    "release/prepare/": ("release/test_prepare.py", "release/noise/test_allocation.py", "release/test_run.py"),
    "release/sql/aggregate.py": ("release/test_neighbours.py", "release/test_oracle.py"),
    "release/sql/comparison.py": ("release/test_one_row.py", "release/test_oracle.py"),
    "release/sql/group_key.py": ("release/test_group_keys.py",),
    "release/sql/group_order.py": ("release/engine/test_engines.py", "release/test_neighbours.py"),
    "release/sql/expression.py": ("release/engine/test_engines.py", "release/test_one_row.py"),
    "release/sql/measured.py": ("release/engine/test_engines.py", "release/test_oracle.py"),
    "release/sql/owners.py": ("release/test_suggest.py",),
    "release/sql/relation.py": ("release/engine/test_engines.py", "release/test_neighbours.py"),
    "release/sql/contribution_bound.py": ("release/engine/test_engines.py", "release/test_neighbours.py"),
    "release/sql/statements.py": ("release/engine/test_engines.py", "release/engine/test_damage.py"),
    "sampling/bulk.py": ("sampling/test_draw.py", "sampling/test_release.py"),
    "sampling/fallback.py": ("sampling/test_draw.py",),
    "sampling/inversion.py": ("sampling/test_draw.py",),
    "sampling/geometric_magnitude.py": ("test_discrete_laplace.py", "test_staircase.py"),
    "sampling/grid_laws.py": ("sampling/test_draw.py",),
    "sampling/sampler.py": ("sampling/test_draw.py", "sampling/test_release.py"),
    "sampling/gaussian_tail.py": ("sampling/test_draw.py",),
    "sampling/truncation.py": ("sampling/test_draw.py",),
    "serve/demo_folder.py": ("cli/test_serve_command.py",),
    "serve/pool.py": ("serve/test_office.py",),
    "serve/release_tasks.py": ("serve/test_application.py", "serve/test_office.py"),
    "serve/routes.py": ("serve/test_openapi.py",),
    "serve/worker.py": ("serve/test_office.py",),
    "stair_sums.py": ("test_staircase.py",),
    "utility/confidence.py": ("statistical/test_coverage.py",),
}
"""Modules that are tested with others, and where; a folder stands for its files, variants of one thing."""


def modules() -> list[Path]:
    """Every module, from the package's folder; a folder's own file has names alone."""
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def own_test(module: Path) -> Path:
    return TESTS / module.parent / f"test_{module.stem}.py"


def named_tests(module: Path) -> tuple[str, ...]:
    """The test files that are named for a module or for its folder."""
    return TOGETHER.get(module.as_posix()) or TOGETHER.get(f"{module.parent.as_posix()}/", ())


def tests_of(module: Path) -> list[Path]:
    """The test files of a module, from the root of the tree."""
    named = [TESTS / each for each in named_tests(module)]
    return [path.relative_to(ROOT) for path in (own_test(module), *named) if path.exists()]
