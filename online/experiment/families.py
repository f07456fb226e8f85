"""Sources of an experiment's instances: generators, windows of traces, files and the library."""

from __future__ import annotations

import glob
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import instances
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    TraceRule,
    Workload,
    trace_windows,
)
from instances.errors import printable
from instances.generators.registry import check_parameters, generator_parameters
from instances.problem.arrival_source import AnySource, in_seconds
from instances.problem.batches import BatchTime
from instances.problem.memory_rule import TOKENS, as_memory_rule
from instances.validation import as_integer, as_name, as_number
from online.policy_interface.specs import PolicySpec

from .documents import canonical

MOST_TRIALS = 1_000_000
"""Of an experiment: all are listed before the first is run."""

_WINDOW_OPTIONS = {
    name: parameter
    for name, parameter in inspect.signature(TraceRule).parameters.items()
    if name != "memory_rule"
}


@dataclass(frozen=True, kw_only=True)
class _Source(ABC):
    """Base of the sources of instances.

    Attributes
    ----------
    memory_rule : MemoryRule
        How memory is counted; that of tokens leaves instances as they are.
    faster : float or None
        Arrivals come this many times as fast; only with a batch time.
    """

    memory_rule: MemoryRule = TOKENS
    faster: float | None = None

    def _check(self, owner: str, label: str | None) -> None:
        as_memory_rule(self.memory_rule, owner)
        if self.faster is not None:
            factor = as_number(self.faster, owner, "faster", above=0)
            object.__setattr__(self, "faster", factor)
        if label is not None:
            as_name(label, owner, "label")

    @property
    @abstractmethod
    def title(self) -> str:
        """Name in tables."""

    @property
    @abstractmethod
    def seeds(self) -> Iterable[int]:
        """Number of each draw: a generator's seed, or a place from 0."""

    def problems(self, batch_time: BatchTime | None) -> Iterator[tuple[int, AnySource]]:
        """Yield each draw with the instance, or in seconds the workload, or the arrival source.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A generator refuses its parameters; arrivals that are in the other unit, or that answer
            to policies and can be neither hurried nor counted otherwise.
        OSError, FileFormatError
            A file that cannot be read, or not as what it should be.
        """
        given = zip(self.seeds, self._given(batch_time is not None), strict=True)
        return ((draw, self._adapted(one, batch_time)) for draw, one in given)

    @abstractmethod
    def _given(self, in_seconds: bool) -> Iterable[AnySource]:
        """Draw or read one problem for each of ``seeds``."""

    def _adapted(self, problem: AnySource, batch_time: BatchTime | None) -> AnySource:
        if not isinstance(problem, Instance | Workload):
            for name, default in (("memory_rule", TOKENS), ("faster", None)):
                if (changed := getattr(self, name)) != default:
                    reason = "cannot be given: the arrivals answer to the policy"
                    raise InvalidValueError(self.title, name, changed, reason)
            return problem
        if self.memory_rule not in (TOKENS, problem.memory_rule):
            problem = problem.under(self.memory_rule)
        if batch_time is not None:
            workload: Workload = in_seconds(problem, batch_time)
            return workload if self.faster is None else workload.faster(self.faster)
        if isinstance(problem, Workload):
            reason = "is missing: its arrivals are in seconds"
            raise InvalidValueError(self.title, "batch_time", None, reason)
        if self.faster is not None:
            raise InvalidValueError(self.title, "faster", self.faster, "goes with batch_time")
        return problem

    def _document(self) -> dict[str, Any]:
        # What is left out was not there once: an experiment without it is the one it always was.
        rule = {} if self.memory_rule == TOKENS else {"memory_rule": asdict(self.memory_rule)}
        hurried = {} if self.faster is None else {"faster": self.faster}
        return {"label": self.title, **rule, **hurried}


@dataclass(frozen=True)
class Family(_Source):
    """Instances drawn by one generator with one setting.

    Attributes
    ----------
    generator, parameters : str, Mapping[str, Any]
        As in `instances.generate`; the parameters are JSON values.
    seeds : Iterable[int]
        One instance (or adaptive arrival source) for each.
    label : str or None
        In tables; None takes ``generator(key=value, ...)``.
    memory_rule, faster : MemoryRule, float or None
        How memory is counted, and how many times as fast arrivals come (with a batch time).
    """

    generator: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeds: Iterable[int] = (0,)
    label: str | None = None

    def __post_init__(self) -> None:
        owner = f"generator {self.generator!r}"
        check_parameters(owner, generator_parameters(self.generator), self.parameters)
        check_json(owner, self.parameters)
        self._check(owner, self.label)
        object.__setattr__(self, "seeds", checked_seeds(owner, "seeds", self.seeds))

    @property
    def title(self) -> str:
        """Label, or generator and parameters."""
        return self.label or PolicySpec(self.generator, self.parameters).label

    def to_document(self) -> dict[str, Any]:
        """Return what defines it, JSON-ready."""
        return {
            "generator": self.generator,
            "parameters": dict(self.parameters),
            "seeds": list(self.seeds),
            **self._document(),
        }

    def source(self, seed: int) -> dict[str, Any]:
        """Return what an arrival source is drawn from."""
        return {"generator": self.generator, "parameters": dict(self.parameters), "seed": seed}

    def _given(self, in_seconds: bool) -> Iterator[AnySource]:
        for seed in self.seeds:
            yield instances.generate(self.generator, seed, **self.parameters)


@dataclass(frozen=True)
class TraceWindows(_Source):
    """Consecutive windows of a trace.

    Attributes
    ----------
    trace : str
        The file.
    parameters : Mapping[str, Any]
        Options of `instances.trace_windows`, JSON values; ``memory_limit`` is needed. With a batch
        time arrivals are in seconds, and there are neither ``round_seconds`` nor ``token_scale``.
    label : str or None
        In tables; None takes ``file(key=value, ...)``.
    folder : str
        What a relative ``trace`` is relative to. It does not define the experiment: the requests
        do, wherever they were read.
    memory_rule, faster : MemoryRule, float or None
        As in `Family`.
    """

    trace: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    folder: str = ""

    def __post_init__(self) -> None:
        owner = f"trace {self.trace!r}"
        as_name(self.trace, owner, "trace")
        check_parameters(owner, _WINDOW_OPTIONS, self.parameters)
        check_json(owner, self.parameters)
        self._check(owner, self.label)
        # Options are checked at once, and the file is read when windows are asked for.
        TraceRule(memory_rule=self.memory_rule, **self.parameters)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Number of each window."""
        return tuple(range(self.parameters.get("windows", 1)))

    @property
    def title(self) -> str:
        """Label, or the file's name and the options."""
        name = printable(Path(self.trace).name)
        return self.label or PolicySpec(name, self.parameters).label

    def to_document(self) -> dict[str, Any]:
        """Return what defines it but for the requests, JSON-ready."""
        return {"trace": self.trace, "parameters": dict(self.parameters), **self._document()}

    def _given(self, in_seconds: bool) -> Iterator[AnySource]:
        path, options = Path(self.folder) / self.trace, dict(self.parameters)
        options["memory_rule"] = self.memory_rule
        for problem, _ in trace_windows(path, in_seconds=in_seconds, **options):
            yield problem


@dataclass(frozen=True)
class InstanceFiles(_Source):
    """Instances as JSON files.

    Attributes
    ----------
    files : Sequence[str]
        Paths, or patterns with ``*``, ``?`` and ``[...]`` that stand for all that match, sorted.
    label : str or None
        In tables; None takes the names as given.
    folder : str
        As in `TraceWindows`.
    memory_rule, faster : MemoryRule, float or None
        As in `Family`.
    """

    files: Sequence[str]
    label: str | None = None
    folder: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", _listed("file", self.files))
        self._check(f"file {self.files[0]!r}", self.label)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files that are there, each once.

        Raises
        ------
        InvalidValueError
            A pattern that none matches.
        """
        found: dict[Path, None] = {}
        for pattern in self.files:
            matches = [pattern]
            if glob.has_magic(pattern):
                matches = sorted(glob.glob(pattern, root_dir=self.folder or os.curdir))
            if not matches:
                raise InvalidValueError("instances", "file", pattern, "matches no file")
            found.update((Path(self.folder) / match, None) for match in matches)
        return tuple(found)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Number of each file."""
        return tuple(range(len(self.paths)))

    @property
    def title(self) -> str:
        """Label, or what was given."""
        return self.label or printable(", ".join(self.files))

    def to_document(self) -> dict[str, Any]:
        """Return what defines it but for what the files hold, JSON-ready."""
        return {"files": list(self.files), **self._document()}

    def _given(self, in_seconds: bool) -> Iterator[AnySource]:
        for path in self.paths:
            loaded = instances.load(path)
            yield loaded if loaded.name else loaded.renamed(printable(path.stem))


@dataclass(frozen=True)
class LibraryInstances(_Source):
    """Instances of the library (`instances.library`).

    Attributes
    ----------
    names : Sequence[str]
        Names of instances or sets, or patterns, as `instances.Library.matching` takes them.
    label : str or None
        In tables; None takes the names as given.
    memory_rule, faster : MemoryRule, float or None
        As in `Family`.
    """

    names: Sequence[str]
    label: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _listed("library", self.names))
        self._check(f"library {self.names[0]!r}", self.label)
        # A name that nothing has is told now.
        _ = self.seeds

    @property
    def seeds(self) -> tuple[int, ...]:
        """Number of each instance."""
        return tuple(range(len(instances.library().matching(*self.names))))

    @property
    def title(self) -> str:
        """Label, or what was given."""
        return self.label or ", ".join(self.names)

    def to_document(self) -> dict[str, Any]:
        """Return what defines it but for what the library holds, JSON-ready."""
        return {"library": list(self.names), **self._document()}

    def _given(self, in_seconds: bool) -> Iterator[AnySource]:
        for entry in instances.library().matching(*self.names):
            yield entry.instance


def _listed(field: str, names: Sequence[str] | str) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, Sequence) or not given:
        raise InvalidTypeError("instances", field, given, "is no list of names")
    return tuple(as_name(one, "instances", field) for one in given)


InstanceSource: TypeAlias = Family | TraceWindows | InstanceFiles | LibraryInstances


def check_json(owner: str, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that do not survive JSON: they become part of a key.

    Raises
    ------
    InvalidTypeError
        One that does not.
    """
    for key, value in parameters.items():
        try:
            canonical(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(owner, key, value, "is not a JSON value") from None


def checked_seeds(owner: str, name: str, seeds: Iterable[int]) -> tuple[int, ...]:
    """Return seeds as a tuple.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        None, one twice, or one that is no whole number >= 0.
    """
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise InvalidTypeError(owner, name, seeds, "is not a list of whole numbers")
    # One more than allowed, for some iterables never end.
    some = islice(seeds, MOST_TRIALS + 1)
    found = tuple(as_integer(seed, owner, name, minimum=0) for seed in some)
    if not found:
        raise InvalidValueError(owner, name, [], "is empty: at least one is needed")
    if len(found) > MOST_TRIALS:
        raise InvalidValueError(owner, name, seeds, f"are more than {MOST_TRIALS}")
    refuse_repeats(owner, name, found)
    return found


def check_trials(owner: str, number: int) -> None:
    """Refuse an experiment that could not even be listed.

    Raises
    ------
    InvalidValueError
        More trials than `MOST_TRIALS`.
    """
    if number > MOST_TRIALS:
        raise InvalidValueError(owner, "trials", number, f"are more than {MOST_TRIALS}")


def refuse_repeats(owner: str, name: str, items: Iterable[Hashable]) -> None:
    """Refuse what comes twice.

    Raises
    ------
    InvalidValueError
        Naming the first that does.
    """
    seen: set[Hashable] = set()
    for item in items:
        if item in seen:
            raise InvalidValueError(owner, name, item, "is given twice")
        seen.add(item)
