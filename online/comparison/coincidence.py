"""Policies whose rows coincide: found by equal schedules, and explained where that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from online.policy_interface.specs import PolicySpec

from .trial import Trial


def coincidence_notes(
    families: Mapping[str, Sequence[Trial]], *, told_exactly: bool = True
) -> list[str]:
    """Write a line for each group of policies that made the same schedules on every instance.

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
    notes = []
    for labels, among in found.items():
        count = sum(among.values())
        where = {1: "the only instance", 2: "both instances"}.get(count, f"all {count} instances")
        if len(among) < len(families):
            where += f" of {listed(list(among))}"
        note = f"{listed(labels)} made the same schedules on {where}"
        own = [label for label in labels if _reads_intervals(specs[label])]
        if told_exactly and own:
            have = "has" if len(own) == 1 else "have"
            note += f": told exact lengths, {listed(own)} {have} nothing to be unsure of"
        notes.append(note)
    return notes


_Made = tuple[str | None, str | None, str]
"""Name and digest of an instance, digest of a schedule."""


def _coinciding(records: Sequence[Trial]) -> list[tuple[tuple[str, ...], int]]:
    """List groups of policies, and on how many instances they are the same."""
    made: dict[str, list[_Made | None]] = {}
    for one in records:
        schedule = one.schedule_digest
        own = None if schedule is None else (one.instance, one.digest, schedule)
        made.setdefault(one.policy_label, []).append(own)
    groups: dict[frozenset[_Made | None], list[str]] = {}
    for label, schedules in made.items():
        # What has no schedule is not the same as anything.
        if None not in schedules:
            groups.setdefault(frozenset(schedules), []).append(label)
    return [
        (tuple(labels), len({one[:2] for one in schedules if one}))
        for schedules, labels in groups.items()
        if len(labels) > 1
    ]


def _reads_intervals(spec: PolicySpec) -> bool:
    try:
        return spec.make().reads_intervals
    except (ValueError, TypeError):
        # Of a results file that another program made, with policies of its own.
        return False


def listed(words: Sequence[str]) -> str:
    """List words as a sentence does: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
