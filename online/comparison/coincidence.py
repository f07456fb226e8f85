"""Policies whose rows coincide: found by equal schedules, and explained where that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from online.policy_interface.specs import PolicySpec

from .trial import Trial

EXACT = "told exact lengths, {} nothing to be unsure of"


def coincidence_notes(
    families: Mapping[str, Sequence[Trial]], *, told_exactly: bool = True
) -> list[str]:
    """One line for each group of policies that made the same schedules on every instance.

    Parameters
    ----------
    families : Mapping[str, Sequence[Trial]]
        Records by what their rows are named by. Policies may coincide in some families only.
    told_exactly : bool, default True
        Whether the policies were told output lengths as they are.
    """
    found: dict[tuple[str, ...], dict[str, int]] = {}
    specs: dict[str, PolicySpec] = {}
    for family, records in families.items():
        specs |= {one.policy_label: PolicySpec(one.policy, one.params) for one in records}
        for labels, instances in _coinciding(records):
            found.setdefault(labels, {})[family] = instances
    return [
        _note(labels, among, len(families), [specs[one] for one in labels], told_exactly)
        for labels, among in found.items()
    ]


_Made = tuple[str | None, str | None, str]
"""Name and digest of an instance, digest of a schedule."""


def _coinciding(records: Sequence[Trial]) -> list[tuple[tuple[str, ...], int]]:
    """Groups of policies, and on how many instances they are the same."""
    made: dict[str, set[_Made] | None] = {}
    for record in records:
        own = made.setdefault(record.policy_label, set())
        if record.schedule_digest is None:
            # What has no schedule is not the same as anything.
            made[record.policy_label] = None
        elif own is not None:
            own.add((record.instance, record.digest, record.schedule_digest))
    groups: dict[frozenset[_Made], list[str]] = {}
    for label, schedules in made.items():
        if schedules:
            groups.setdefault(frozenset(schedules), []).append(label)
    return [
        (tuple(labels), len({one[:2] for one in schedules}))
        for schedules, labels in groups.items()
        if len(labels) > 1
    ]


def _note(
    labels: Sequence[str],
    among: Mapping[str, int],
    families: int,
    policies: Sequence[PolicySpec],
    told_exactly: bool,
) -> str:
    count = sum(among.values())
    where = {1: "the only instance", 2: "both instances"}.get(count, f"all {count} instances")
    if len(among) < families:
        where += f" of {listed(list(among))}"
    note = f"{listed(labels)} made the same schedules on {where}"
    unsure = [label for label, spec in zip(labels, policies, strict=True) if _reads_intervals(spec)]
    if told_exactly and unsure:
        note += ": " + EXACT.format(f"{listed(unsure)} {'has' if len(unsure) == 1 else 'have'}")
    return note


def _reads_intervals(spec: PolicySpec) -> bool:
    try:
        return spec.make().reads_intervals
    except (ValueError, TypeError):
        # Of a results file that another program made, with policies of its own.
        return False


def listed(words: Sequence[str]) -> str:
    """Words as a sentence lists them: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
