"""Tables of trials as pandas frames: a row per trial, means per policy, policies in pairs.

Ratios are `Interval` objects. Their ends are exact fractions, and means are computed exactly.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from instances import InvalidValueError

from .bootstrap import mean_interval
from .intervals import LATENCY, NOTHING, Interval
from .trial import Trial, as_row

BY = ("group", "policy", "router", "predictions", "compared_with")
"""Attributes of `Trial`. Trials with different values are in different rows of a table of means."""

USUAL = {"compared_with": "optimum", "predictions": "exact"}


def frame(trials: Iterable[Trial]) -> Any:
    """Return a pandas frame with a row for each trial and a column for each attribute of `Trial`.

    Column ``ratio`` has `Interval` objects with exact ends. Column ``proved`` has whether the
    optimum is known.
    """
    return _frame([as_row(trial) for trial in trials])


def table(trials: Iterable[Trial], by: Sequence[str] | None = None) -> Any:
    """Return a pandas frame of mean and largest competitive ratios, with a row for each policy.

    Columns ``mean ratio`` and ``max ratio`` are intervals with exact ends that contain the mean and
    the largest ratio of the trials. Column ``95 %`` is a bootstrap confidence interval of the
    expected ratio over the distribution of instances. Trials without a ratio are left out of these
    columns and count as failed.

    Parameters
    ----------
    trials : Iterable[Trial]
        From `online.sweep` or `online.read_trials`.
    by : Sequence[str] or None, default None
        Attributes of `Trial`: trials with different values are in different rows. None takes
        ``"policy"``, and those of ``"group"``, ``"router"``, ``"predictions"`` and
        ``"compared_with"`` that differ among the trials.
    """
    return _frame(table_rows([*trials], by))


def table_rows(trials: Sequence[Trial], by: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of `table` as dictionaries, without columns that are empty in all rows."""
    names = divided_by(trials) if by is None else [*by]
    rows = [
        {**dict(zip(names, key, strict=True)), **_row(own)}
        for key, own in grouped(trials, names).items()
    ]
    kept = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
    return [{name: row[name] for name in kept} for row in rows]


def paired(trials: Iterable[Trial], policy: str, by: Sequence[str] | None = None) -> Any:
    """Return a pandas frame that compares the costs of each policy with those of ``policy``.

    Each trial is paired with the trial of ``policy`` on the same problem and seed. Column ``pairs``
    is the number of pairs. ``mean share`` is the exact mean of cost / (cost of ``policy``), and
    ``95 %`` its bootstrap confidence interval. ``lower``, ``equal`` and ``higher`` count the trials
    with a cost below, equal to and above that of ``policy``. Optima are not used, so trials without
    a ratio count if they have a cost.

    Parameters
    ----------
    trials : Iterable[Trial]
        From `online.sweep` or `online.read_trials`.
    policy : str
        Label of the policy to compare with.
    by : Sequence[str] or None, default None
        Attributes that divide the rows, as in `table`.

    Raises
    ------
    InvalidValueError
        No trial of ``policy`` has a cost.
    """
    given = [one for one in trials if one.cost is not None]
    known: dict[Hashable, dict[int, Trial]] = {}
    for one in given:
        if one.policy == policy and one.cost:
            known.setdefault(_place(one), {})[one.seed] = one
    if not known:
        raise InvalidValueError(None, "policy", policy, "has no trial with a cost")
    names = [name for name in (divided_by(given) if by is None else by) if name != "compared_with"]
    rows = []
    for key, own in grouped(given, names).items():
        shares: dict[Hashable, list[Interval]] = {}
        for one in own:
            others = known.get(_place(one), {})
            other = others.get(one.seed) or next(iter(others.values()), None)
            if other is not None and one.policy != policy:
                share = Interval.of_share(one.cost or 0, Interval.between(other.cost, other.cost))
                shares.setdefault((one.group, one.instance, one.problem), []).append(share)
        every = [share.lower or 0 for found in shares.values() for share in found]
        if every:
            counts = {
                "pairs": len(every),
                "mean share": Interval.mean_of([one for unit in shares.values() for one in unit]),
                "95 %": mean_interval([*shares.values()]),
                "lower": sum(share < 1 for share in every),
                "equal": sum(share == 1 for share in every),
                "higher": sum(share > 1 for share in every),
            }
            rows.append({**dict(zip(names, key, strict=True)), **counts})
    return _frame(rows)


def _place(trial: Trial) -> Hashable:
    return trial.group, trial.problem, trial.batch_time, trial.goal, trial.router, trial.predictions


def divided_by(trials: Sequence[Trial]) -> list[str]:
    """Return the attributes of `BY` whose values get separate rows in a table of these trials.

    These are the policy, the attributes that differ among the trials, and those whose value is not
    that in `USUAL`.
    """

    def differs(name: str) -> bool:
        values = {getattr(one, name) for one in trials}
        return len(values) > 1 or (name in USUAL and values != {USUAL[name]} and bool(values))

    return [name for name in BY if name == "policy" or differs(name)]


def grouped(trials: Iterable[Trial], names: Sequence[str]) -> dict[tuple[Any, ...], list[Trial]]:
    """Group trials by the values of their attributes ``names``, in order of appearance."""
    found: dict[tuple[Any, ...], list[Trial]] = {}
    for one in trials:
        found.setdefault(tuple(getattr(one, name) for name in names), []).append(one)
    return found


def _row(trials: Sequence[Trial]) -> dict[str, Any]:
    compared = [one for one in trials if one.ratio is not None]
    ratios = [one.ratio for one in compared if one.ratio is not None]
    units = grouped(compared, ("group", "instance", "problem")).values()
    timed = any(one.batch_time for one in trials)
    is_latency = all(one.goal == LATENCY for one in trials)
    weight = sum(one.weight for one in compared)
    total = sum(one.cost or 0 for one in compared)
    means = Fraction(total) / weight if compared and is_latency and timed else None
    return {
        "trials": len(trials),
        "failed": len(trials) - len(compared),
        "proved": sum(one.is_proved for one in compared),
        "mean latency, s": None if means is None else Interval(means, means),
        "mean ratio": Interval.mean_of(ratios),
        "95 %": mean_interval([[one.ratio or NOTHING for one in unit] for unit in units]),
        "max ratio": Interval.largest_of(ratios),
    }


def _frame(rows: Sequence[dict[str, Any]]) -> Any:
    import pandas

    return pandas.DataFrame(rows)
