"""Sources of instances: texts by which arguments of subcommands name instances.

A source is ``[KIND:]NAME[(KEY=VALUE, ...)]``:

- ``small.json`` or ``file:small.json`` is an instance in a file,
- ``worst-n7-00`` or ``library:j25-*`` are one or more instances of the library,
- ``generator:uniform(n=10, seed=3, count=5)`` are draws of a generator with seeds 3, 4, ..;
  ``generator:FILE.py:NAME`` is a generator of the user,
- ``worst:mc-sf(n=12, arrivals=0)`` is the worst instance that a search finds for a policy,
- ``trace:log.csv(memory_limit=4000, arrival=received)`` are windows of a trace or log, with the
  options of `instances.trace_windows` and the names of its columns.

All kinds also have the setting ``memory_rule``, and ``faster`` if latencies are in seconds. A value
with a comma, quote or parenthesis must be in quotes, as in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import instances
from instances import FileFormatError, Instance, InvalidValueError, UnknownNameError, Workload
from instances.errors import printable
from instances.generators.registry import SYNTHETIC
from instances.logs.formats import ROLES
from instances.problem.arrival_source import in_seconds
from instances.problem.batches import BatchTime
from instances.problem.memory_rule import TOKENS, VLLM_BLOCKS, MemoryRule
from instances.progress import progress_bar
from instances.settings import parse_texts, parse_value, quoted
from instances.user_modules import import_sources
from instances.validation import as_integer

MEMORY_SETTINGS = ("memory_rule",)
MEMORY_RULES = {"tokens": TOKENS, "vllm": VLLM_BLOCKS}
WINDOW = ("format", "bad_rows", "start_seconds", "duration_seconds", "max_requests", "too_long")
LOG_SETTINGS = (*WINDOW, *ROLES, *MEMORY_SETTINGS, "faster", "max_concurrency")
"""Settings that the subcommand `headroom` accepts in parentheses after the name of a log."""

SPACE = {"n": 12, "memory_limit": 64, "arrivals": 0, "equal_prompts": False}
"""Settings of a source ``worst:POLICY`` with defaults. They limit the instances that are tried."""

SETTINGS: dict[str, tuple[str, ...]] = {
    "file": (),
    "library": (),
    "generator": (),
    "worst": (*SPACE, "seed", "rounds", "evaluations"),
    "trace": ("memory_limit", *WINDOW, "round_seconds", "token_scale", "windows", *ROLES),
}
"""Names of the settings of each kind of source. A generator has its own parameters as settings."""

LOGS = (".csv", ".jsonl", ".gz")

_QUOTED = r""""(?:[^"\\]|\\.)*"|'[^']*'"""
_FORM = re.compile(
    rf"(?:(?P<kind>[a-z-]{{2,}}):)?(?P<name>.+?)(?:\((?P<settings>(?:[^()\"']|{_QUOTED})*)\))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Source:
    """A source of instances, ``KIND:NAME(KEY=VALUE, ...)``.

    Attributes
    ----------
    kind : str
        Kind of the source, a key of `SETTINGS`.
    name : str
        Path of a file, pattern of names in the library, name of a generator, or name of a policy.
    settings : Mapping[str, str]
        Values of the settings by key, as text.
    """

    kind: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the text that `parse_source` reads as this source."""
        given = ", ".join(f"{key}={quoted(text)}" for key, text in self.settings.items())
        # The parentheses of the settings are written even if empty, since the name itself may end
        # with parentheses.
        return f"{self.kind}:{self.name}({given})"

    @property
    def file(self) -> Path | None:
        """Path of the file from which the source is read. None for a source without a file."""
        return Path(self.name) if self.kind in ("file", "trace") else None

    def refuse_settings_except(self, known: Iterable[str]) -> None:
        """Raise UnknownNameError for a setting that is not one of ``known``."""
        known = [*known]
        for key in self.settings:
            if key not in known:
                raise UnknownNameError(f"setting of {self.kind}:{self.name}", key, known)

    def values(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the settings as numbers, booleans or text, except those named in ``without``."""
        texts = self.settings.items()
        return {key: parse_value(text) for key, text in texts if key not in without}

    def memory_rule(self) -> MemoryRule:
        """Return the memory rule that the setting ``memory_rule`` gives. By default it is tokens.

        Values are ``tokens``, ``vllm`` (blocks of 16 tokens) and ``blocks:SIZE``.

        Raises
        ------
        UnknownNameError, InvalidValueError, InvalidTypeError
            The value is another text, or SIZE is invalid.
        """
        name = self.settings.get("memory_rule", "tokens")
        if name in MEMORY_RULES:
            return MEMORY_RULES[name]
        if not name.startswith("blocks:"):
            raise UnknownNameError("memory rule", name, [*MEMORY_RULES, "blocks:SIZE"])
        size: Any = parse_value(name.removeprefix("blocks:"))
        return replace(VLLM_BLOCKS, block_size=size)


def parse_source(text: str, bare: str | None = None) -> Source:
    """Parse the text of a source.

    Parameters
    ----------
    text : str
        Text ``[KIND:]NAME[(KEY=VALUE, ...)]``, see the docstring of this module.
    bare : str, optional
        Kind of the source if the text has no KIND. By default it is ``"file"`` if such a file
        exists or the name looks like that of a file, else ``"library"``.

    Raises
    ------
    UnknownNameError
        The kind is unknown.
    InvalidValueError
        The settings cannot be parsed.
    """
    found = _FORM.fullmatch(text)
    if os.path.exists(text) or found is None:
        return Source(bare or "file", text)
    kind, name = found["kind"] or bare or _kind_of(found["name"]), found["name"]
    if kind not in SETTINGS:
        raise UnknownNameError("kind of source", kind, list(SETTINGS))
    words = shlex.shlex(found["settings"] or "", posix=True)
    words.whitespace, words.whitespace_split, words.commenters = ",", True, ""
    try:
        entries = [one.strip() for one in words if one.strip()]
    except ValueError as error:
        raise InvalidValueError(None, "source", text, f"cannot be read: {error}") from None
    return Source(kind, name, parse_texts(entries, f"source {text!r}"))


def _kind_of(name: str) -> str:
    path = Path(name)
    if path.exists() or (name not in instances.library() and (path.suffix or path.name != name)):
        return "file"
    if name in instances.generator_names():
        raise InvalidValueError(None, "source", name, f"is a generator: write generator:{name}")
    return "library"


def read_sources(
    sources: Iterable[Source], batch_time: BatchTime | None = None, memory_limit: int | None = None
) -> tuple[list[Any], list[str]]:
    """Return the problems of sources in order, and notes to print with the results.

    A note is made for each problem that is synthetic, rounded, or whose arrivals depend on the
    policy.

    Parameters
    ----------
    sources : iterable of Source
        The sources, as `parse_source` returns them.
    batch_time : BatchTime, optional
        Model of the seconds of a round. If it is given, all problems are in seconds.
    memory_limit : int, optional
        M in tokens, for traces without the setting ``memory_limit``.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError, FileFormatError, OSError
        A source cannot be read.
    """
    problems, notes = list[Any](), list[str]()
    common = MEMORY_SETTINGS if batch_time is None else (*MEMORY_SETTINGS, "faster")
    for source in sources:
        rule, given = source.memory_rule(), source.values(without=common)
        if source.kind != "generator":
            source.refuse_settings_except([*SETTINGS[source.kind], *common])
        if source.kind == "trace":
            found = _windows(source, rule, batch_time is not None, memory_limit, notes)
        elif source.kind == "generator":
            found = _drawn(source, given)
        elif source.kind == "worst":
            found = [_worst(source, given, notes)]
        elif source.kind == "library":
            found = [one.instance for one in instances.library().matching(source.name)]
        else:
            found = [_loaded(Path(source.name))]
        for problem in found:
            if rule != TOKENS and source.kind != "trace":
                if not isinstance(problem, Instance | Workload):
                    reason = "reacts to the policy, and counts memory in tokens"
                    raise InvalidValueError(None, source.kind, source.name, reason)
                problem = problem.replaced(memory_rule=rule)
            if batch_time is not None:
                problem = in_seconds(problem, batch_time)
                if "faster" in source.settings:
                    problem = problem.faster(parse_value(source.settings["faster"]))
            problems.append(problem)
    notes += dict.fromkeys(note for problem in problems for note in _notes(problem))
    return problems, notes


def read_instances(sources: Iterable[Source]) -> tuple[list[Instance], list[str]]:
    """Return the instances of sources, with time in rounds, and notes as `read_sources` does.

    Raises
    ------
    InvalidValueError
        A problem has arrivals in seconds, or its requests are not known before a run. Other errors
        are those of `read_sources`.
    """
    problems, notes = read_sources(sources)
    for problem in problems:
        if not isinstance(problem, Instance):
            is_timed = isinstance(problem, Workload)
            reason = "reacts to the policy: it has no instance before a run"
            reason = "has arrivals in seconds, and no rounds" if is_timed else reason
            raise InvalidValueError(None, "instance", problem.name, reason)
    return problems, notes


def trace_options(source: Source) -> dict[str, Any]:
    """Return the settings of a trace or log as keyword arguments of the functions that read it.

    The names of columns are one argument, ``columns``. Settings of the memory rule are left out.
    """
    columns = {key: text for key, text in source.settings.items() if key in ROLES}
    options = source.values(without={*ROLES, *MEMORY_SETTINGS})
    return {**options, "columns": columns} if columns else options


def _notes(problem: Any) -> Iterator[str]:
    """Yield notes on a problem: arrivals depend on the policy, synthetic data, rounded times."""
    metadata = getattr(problem, "metadata", {})
    if getattr(problem, "adaptive", False):
        yield f"adaptive arrivals, answering each policy: {problem.name}"
    if metadata.get(SYNTHETIC) is not None:
        yield f"synthetic: {metadata[SYNTHETIC]}"
    if note := instances.rounding_note(metadata):
        yield note


def _loaded(path: Path) -> Instance:
    try:
        instance = instances.load(path)
    except FileFormatError:
        if path.suffix.lower() not in LOGS:
            raise
        reason = f"is not an instance: a trace or log is 'trace:{path}(memory_limit=M)'"
        raise FileFormatError(path, reason) from None
    return instance if instance.name else instance.renamed(printable(path.stem))


def _drawn(source: Source, given: dict[str, Any]) -> list[Any]:
    file, _, name = source.name.rpartition(":")
    if file:
        import_sources([file])
    owner = f"generator {name!r}"
    seed = as_integer(given.pop("seed", 0), owner, "seed", minimum=0)
    count = as_integer(given.pop("count", 1), owner, "count", minimum=1)
    return [instances.generate(name, one, **given) for one in range(seed, seed + count)]


def _worst(source: Source, given: dict[str, Any], notes: list[str]) -> Instance:
    """Search for an instance with the largest ratio of the policy ``source.name``, and return it.

    ``given`` has the settings of the search.
    """
    from online.worst_cases import Space, search

    limits: Any = [given.pop(name, default) for name, default in SPACE.items()]
    space = Space(*limits)
    with progress_bar() as update:
        update(0, f"searching {source}")
        found = search(source.name, space, progress=lambda news: update(0, str(news)), **given)
    if not found.cases:
        raise InvalidValueError(None, "source", str(source), "gives nothing: no optimum was proved")
    notes.append(str(found))
    return found.cases[0].instance(f"worst-{found.cases[0].draft.instance().digest[:8]}")


def _windows(
    source: Source, rule: MemoryRule, timed: bool, memory_limit: int | None, notes: list[str]
) -> list[Any]:
    """Return the time windows of a trace, each as a problem.

    Add a note on rows that were left out or changed to ``notes``.
    """
    options = {"memory_limit": memory_limit, **trace_options(source)}
    options.pop("faster", None)
    if options["memory_limit"] is None:
        raise InvalidValueError(None, "trace", source.name, "needs memory_limit, in scaled tokens")
    found = [*instances.trace_windows(source.name, in_seconds=timed, memory_rule=rule, **options)]
    notes += [f"{one.name}: {report}" if len(found) > 1 else str(report) for one, report in found]
    return [one for one, _ in found]
