"""Every check of a study's validity, in the order of reading. Nothing is said that was not found; `unmade` tells
what could not be looked for."""

from __future__ import annotations

from collections.abc import Callable

from algos.finding import Finding
from reports.table import StudyTable
from reports.threats import (
    baselines,
    budgets,
    completeness,
    confounds,
    environment,
    events,
    evidence,
    failures,
    forks,
    modules,
    protocol,
    recorded,
    searched,
    timing,
)

CHECKS: tuple[Callable[[StudyTable], list[Finding]], ...] = (
    evidence.selected_on_test,
    baselines.no_better_than_baseline,
    failures.diverged,
    budgets.clocks_disagree,
    timing.scattered_seconds,
    timing.shared_clock,
    timing.short_runs,
    timing.unlike_machines,
    failures.missing_runs,
    recorded.metric_not_logged,
    recorded.metric_assumed,
    recorded.mixed_runners,
    recorded.other_loops,
    recorded.not_tuned,
    recorded.budgets_not_given,
    modules.mixed_module_files,
    modules.files_changed_midway,
    modules.files_changed_since,
    events.ended_before_budget,
    recorded.no_test_split,
    completeness.arms_left_out,
    completeness.fewer_than_planned,
    completeness.repeated_seeds,
    confounds.confounded_arms,
    confounds.same_config,
    confounds.mixed_task,
    evidence.stopped_at_target,
    evidence.few_seeds,
    evidence.unmatched_seeds,
    forks.shared_trunks,
    forks.replays,
    protocol.mixed_configs,
    protocol.unequal_budgets,
    protocol.unequal_tuning,
    searched.unequal_search,
    protocol.winner_not_best,
    protocol.optimum_at_edge,
    protocol.tuned_on_final_seeds,
    protocol.pruned,
    protocol.warm_started,
    failures.failed_trials,
    failures.diverged_trials,
    evidence.still_improving,
    environment.mixed_devices,
    environment.simulated_device,
    environment.mixed_threads,
    environment.mixed_commits,
    environment.mixed_packages,
    environment.mixed_data,
    environment.dirty_folder,
    budgets.unequal_use,
    evidence.target_not_reached,
    evidence.coarse_test_split,
    evidence.small_models_only,
    events.warnings,
)
_ORDER = {"error": 0, "caution": 1, "note": 2}


def threats(study: StudyTable) -> list[Finding]:
    """What was found, the worst first."""
    if ("threats", "") not in study.kept:
        found = [finding for check in CHECKS for finding in check(study)]
        study.kept["threats", ""] = sorted(found, key=lambda finding: _ORDER[finding.level])
    return list(study.kept["threats", ""])
