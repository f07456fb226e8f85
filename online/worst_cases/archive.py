"""Worst-case archives: one JSON file for each policy, written after every round, and their check.

The check trusts nothing in the file: it runs the policy again in the simulator, and has the optimum
proved by `hindsight.certificates.checking`, which shares no code with any solver.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from instances import FileFormatError
from instances.files import parse_json, read_bytes, write_atomically
from instances.validation import as_flag, as_integer
from online.comparison.ratio_tables import COMPARED_WITH, optimum_column
from online.comparison.ratios import rounded
from online.comparison.trial import OPTIMA
from online.policy_interface.specs import PolicySpec
from online.runtime.table import Table

from .drafts import Draft, Space
from .scoring import ENDLESS, Case, Target, policy_costs
from .search import SearchState

FORMAT = "llm-hindsight/worst-cases"
VERSION = 1


class RefutedError(ValueError):
    """A worst case is not what its archive says; the message tells what differs."""


@dataclass(frozen=True)
class Check:
    """A case that stood up to `check_case`.

    Attributes
    ----------
    proof : str
        Kind of the certificate's proof.
    backwards : float or None
        The policy's mean latency over the optimum where the requests are listed in the opposite
        order, which decides ties; None where some run did not end, NaN where it is the other
        optimum that these are to be compared with.
    """

    proof: str
    backwards: float | None


def archive_path(folder: str | os.PathLike[str], spec: PolicySpec) -> Path:
    """Return the path of a policy's archive: parameters are part of the file's name."""
    settings = "".join(f"_{key}-{value}" for key, value in sorted(spec.params.items()))
    return Path(folder) / f"{spec.name}{settings}.json"


def save(path: str | os.PathLike[str], standings: Iterable[SearchState]) -> None:
    """Write the standings of one policy, one for each setting.

    Raises
    ------
    OSError
        The file cannot be written; no partial file is left.
    """
    found = list(standings)
    spec = found[0].target.spec
    document = {
        "format": FORMAT,
        "version": VERSION,
        "policy": spec.name,
        "params": dict(spec.params),
        **({} if spec.sources is None else {"sources": spec.sources}),
        "searches": [_search_document(standing) for standing in found],
    }
    # A case a line: small, and a new one shows in a diff.
    text = json.dumps(document, separators=(",", ":")).replace(
        '{"memory_limit"', '\n{"memory_limit"'
    )
    write_atomically(path, text + "\n")


def load(path: str | os.PathLike[str], spec: PolicySpec | None = None) -> list[SearchState]:
    """Read the standings in a file; their cases are not checked, see `check_case`.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    spec : PolicySpec or None, default None
        The policy, where it is the user's own; None takes the registered one that the file names.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        Not JSON, not an archive, or one of other code than ``spec`` has.
    """
    document = parse_json(read_bytes(path), path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(path, f"is not an archive: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise FileFormatError(
            path, f"version is {document.get('version')!r}; this release reads {VERSION}"
        )
    try:
        named = PolicySpec(document["policy"], dict(document["params"]))
        own = named if spec is None or spec.label != named.label else spec
        own.make()
        if document.get("sources") != own.sources:
            reason = (
                f"is of another edition of {own.label}, or of one in no file: use another folder"
            )
            raise FileFormatError(path, reason)
        # Releases up to 0.2.0 also searched for the cheaper of both orders of listing.
        parts = [part for part in document["searches"] if not part.get("either_order")]
        return [_standing(own, part) for part in parts]
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(path, f"is no complete archive: {error!r}") from error


def _search_document(standing: SearchState) -> dict[str, Any]:
    endless = standing.endless
    counts = ("seed", "shapes", "rounds", "evaluations", "unproved")
    return {
        "space": asdict(standing.target.space),
        "knowledge": standing.target.knowledge,
        **{name: getattr(standing, name) for name in counts},
        "cases": [_case_document(case) for case in standing.cases],
        "endless": None
        if endless is None
        else {**_draft_document(endless[0]), "status": endless[1]},
    }


def _draft_document(draft: Draft) -> dict[str, Any]:
    return {"memory_limit": draft.memory_limit, "requests": [list(row) for row in draft.rows]}


def _case_document(case: Case) -> dict[str, Any]:
    return {
        **_draft_document(case.draft),
        "total": case.total,
        "runs": case.runs,
        "optimum": case.optimum,
        "certificate": case.certificate,
        **({"preemptive": True} if case.preemptive else {}),
    }


def _draft(part: Mapping[str, Any]) -> Draft:
    rows = tuple((_whole(a), _whole(s), _whole(o)) for a, s, o in part["requests"])
    return Draft(_whole(part["memory_limit"]), rows)


def _whole(value: Any, minimum: int = 0) -> int:
    # 18.0 equals 18, and would only fail where a ratio is formed, as would an optimum of 0.
    return as_integer(value, "archive", "number", minimum=minimum)


def _standing(spec: PolicySpec, part: Mapping[str, Any]) -> SearchState:
    endless = part["endless"]
    return SearchState(
        Target(spec, Space(**part["space"])),
        _whole(part["seed"]),
        as_flag(part["shapes"], "archive", "shapes"),
        _whole(part["rounds"]),
        _whole(part["evaluations"]),
        _whole(part["unproved"]),
        tuple(
            Case(
                _draft(case),
                _whole(case["total"]),
                _whole(case["runs"], 1),
                _whole(case["optimum"], 1),
                case["certificate"],
                as_flag(case.get("preemptive", False), "archive", "preemptive"),
            )
            for case in part["cases"]
        ),
        None if endless is None else (_draft(endless), endless["status"]),
    )


def check_case(target: Target, case: Case) -> Check:
    """Run the policy again and check the proof of the optimum.

    Raises
    ------
    RefutedError
        The instance is outside the target's space, the policy's latency or the optimum to compare
        it with is another, or the certificate is missing, of another instance, or proves another
        optimum.
    CertificateError
        The certificate does not prove what it claims.
    """
    from hindsight.certificates.checking import check_certificate

    if not target.space.holds(case.draft):
        raise RefutedError(f"the instance is not in the space {target.setting}")
    costs = policy_costs(target, case.draft)
    if (costs.total, costs.runs) != (case.total, case.runs):
        raise RefutedError(
            f"the policy's latency is {costs.total} in {costs.runs} run(s), "
            f"not {case.total} in {case.runs}"
        )
    if costs.preemptive != case.preemptive:
        compared = OPTIMA[costs.preemptive]
        raise RefutedError(f"the policy is to be compared with the {compared}, which this is not")
    if case.certificate is None:
        raise RefutedError("there is no certificate")
    verdict = check_certificate(case.certificate)
    if verdict.digest != case.draft.instance().digest:
        raise RefutedError("the certificate is of another instance")
    if verdict.preemptive != case.preemptive:
        raise RefutedError(f"the certificate is not of the {case.compared_with}")
    if not verdict.is_optimal or verdict.lower_bound != case.optimum:
        raise RefutedError(
            f"the certificate proves [{verdict.lower_bound}, {verdict.upper_bound}], "
            f"not {case.optimum}"
        )
    opposite = policy_costs(target, case.draft.reversed())
    if opposite.mean is None:
        return Check(verdict.kind, None)
    other = opposite.preemptive and not case.preemptive
    return Check(verdict.kind, math.nan if other else float(opposite.mean / case.optimum))


def check_endless(target: Target, draft: Draft, status: str) -> None:
    """Run the policy again on an instance it is said never to finish.

    Raises
    ------
    RefutedError
        The instance is outside the target's space, the status is not one of a run that never ends,
        or the run ends otherwise.
    """
    if not target.space.holds(draft):
        raise RefutedError(f"the instance is not in the space {target.setting}")
    if status not in ENDLESS:
        raise RefutedError(f"{status!r} is not the status of a run that never ends")
    found = policy_costs(target, draft).status
    if found != status:
        raise RefutedError(f"the run ends as {found!r}, not as {status!r}")


def describe(draft: Draft) -> str:
    """Write an instance in a line: ``M=7: 2 x (1, 3) @4`` is two requests (1, 3) arriving at 4.

    Equal neighbours are counted; ``@0`` is left out.
    """
    parts = []
    for (a, s, o), alike in groupby(draft.rows):
        count = len(list(alike))
        parts.append(f"{f'{count} x ' if count > 1 else ''}({s}, {o}){f' @{a}' if a else ''}")
    return f"M={draft.memory_limit}: " + ", ".join(parts)


def case_table(rows: Iterable[tuple[SearchState, Case, Check]]) -> Table:
    """Make a table of one line a case: what was found, and how it was verified."""
    rows = list(rows)
    named = optimum_column([case for _, case, _ in rows])
    before = ("policy", "setting", "knows", "evaluations", "n", "latency", "optimum")
    columns = (*before, *named, "ratio", "backwards", "proof", "instance")
    lines = tuple(
        (
            standing.target.spec.label,
            standing.target.setting,
            standing.target.knowledge,
            str(standing.evaluations),
            str(len(case.draft.rows)),
            f"{case.total / case.runs:g}" + (f" (mean of {case.runs})" if case.runs > 1 else ""),
            str(case.optimum),
            *((case.compared_with,) if named else ()),
            rounded(case.ratio),
            "unended" if check.backwards is None else rounded(check.backwards),
            check.proof,
            describe(case.draft),
        )
        for standing, case, check in rows
    )
    text = frozenset({"policy", "setting", "knows", COMPARED_WITH, "proof", "instance"})
    return Table(
        "worst cases, each run again and each optimum's proof checked",
        columns,
        lines,
        text,
        ("policy", "setting", "ratio", COMPARED_WITH, "latency", "optimum", "instance", "proof"),
        frozenset({COMPARED_WITH, "setting", "instance"}),
    )
