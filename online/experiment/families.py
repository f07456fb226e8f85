"""Where instances of an experiment come from: generators, windows of traces, files, the library."""

from __future__ import annotations

import glob
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import instances
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    UnknownNameError,
    Workload,
    generator_names,
)
from instances.errors import printable
from instances.generators.registry import check_parameters, generator_parameters
from instances.problem.arrival_source import ArrivalSource
from instances.problem.memory_rule import TOKENS, as_memory_rule
from instances.traces.window import TraceRule, trace_windows, workload_windows
from instances.validation import as_name, as_number
from online.policy_interface.specs import PolicySpec

from .checks import check_json, checked_seeds

Problem: TypeAlias = Instance | Workload | ArrivalSource

_WINDOW_OPTIONS = {
    name: parameter
    for name, parameter in inspect.signature(TraceRule).parameters.items()
    if name != "memory_rule"
}
_OF_ROUNDS = ("round_seconds", "token_scale")


@dataclass(frozen=True, kw_only=True)
class _Source(ABC):
    """What all have in common.

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
        """In tables."""

    def check_unit(self, *, in_seconds: bool) -> None:
        """Refuse what means nothing in rounds, or nothing in seconds.

        Raises
        ------
        InvalidValueError
            Naming it.
        """
        if self.faster is not None and not in_seconds:
            raise InvalidValueError(self.title, "faster", self.faster, "goes with batch_time")

    def problems(self, *, in_seconds: bool) -> Iterator[tuple[int, Problem]]:
        """Each draw, and the instance, workload or arrival source that it is.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            A generator refuses its parameters; arrivals that are in the other unit, or that answer
            to policies and can be neither hurried nor counted otherwise.
        OSError, FileFormatError
            A file that cannot be read, or not as what it should be.
        """
        for draw, problem in self._given(in_seconds=in_seconds):
            yield draw, self._adapted(problem, in_seconds=in_seconds)

    @abstractmethod
    def _given(self, *, in_seconds: bool) -> Iterable[tuple[int, Problem]]: ...

    def _adapted(self, problem: Problem, *, in_seconds: bool) -> Problem:
        fixed = isinstance(problem, Instance | Workload)
        for name, changes in (
            ("memory_rule", self.memory_rule != TOKENS),
            ("faster", self.faster is not None),
        ):
            if changes and not fixed:
                reason = "cannot be given: the arrivals answer to the policy"
                raise InvalidValueError(self.title, name, getattr(self, name), reason)
        if not isinstance(problem, Instance | Workload):
            return problem
        if self.memory_rule not in (TOKENS, problem.memory_rule):
            problem = problem.under(self.memory_rule)
        if in_seconds:
            from hindsight.seconds.solving import as_workload

            workload = as_workload(problem)
            return workload if self.faster is None else workload.faster(self.faster)
        if isinstance(problem, Workload):
            reason = "is missing: its arrivals are in seconds"
            raise InvalidValueError(self.title, "batch_time", None, reason)
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
        if self.generator not in generator_names():
            raise UnknownNameError("generator", self.generator, generator_names())
        owner = f"generator {self.generator!r}"
        check_parameters(owner, generator_parameters(self.generator), self.parameters)
        check_json(owner, self.parameters)
        self._check(owner, self.label)
        object.__setattr__(self, "seeds", checked_seeds(owner, "seeds", self.seeds))

    @property
    def title(self) -> str:
        """The label, or generator and parameters."""
        return self.label or PolicySpec(self.generator, self.parameters).label

    def to_document(self) -> dict[str, Any]:
        """What defines it, JSON-ready."""
        return {
            "generator": self.generator,
            "parameters": dict(self.parameters),
            "seeds": list(self.seeds),
            **self._document(),
        }

    def source(self, seed: int) -> dict[str, Any]:
        """What an arrival source is drawn from."""
        return {"generator": self.generator, "parameters": dict(self.parameters), "seed": seed}

    def _given(self, *, in_seconds: bool) -> Iterator[tuple[int, Problem]]:
        for seed in self.seeds:
            yield seed, instances.generate(self.generator, seed, **self.parameters)


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
        """Numbers of the windows."""
        return tuple(range(self.parameters.get("windows", 1)))

    @property
    def title(self) -> str:
        """The label, or the file's name and the options."""
        name = printable(Path(self.trace).name)
        return self.label or PolicySpec(name, self.parameters).label

    def check_unit(self, *, in_seconds: bool) -> None:
        """Refuse what means nothing in rounds, or nothing in seconds.

        Raises
        ------
        InvalidValueError
            Naming it.
        """
        super().check_unit(in_seconds=in_seconds)
        for name in _OF_ROUNDS:
            if in_seconds and name in self.parameters:
                reason = "goes without batch_time: nothing is rounded"
                raise InvalidValueError(self.title, name, self.parameters[name], reason)

    def to_document(self) -> dict[str, Any]:
        """What defines it but for the requests, JSON-ready."""
        return {"trace": self.trace, "parameters": dict(self.parameters), **self._document()}

    def _given(self, *, in_seconds: bool) -> Iterator[tuple[int, Problem]]:
        windows: Callable[..., Iterator[tuple[Problem, Any]]] = (
            workload_windows if in_seconds else trace_windows
        )
        path = Path(self.folder) / self.trace
        read = windows(path, memory_rule=self.memory_rule, **self.parameters)
        for number, (problem, _) in enumerate(read):
            yield number, problem


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
        """The files that are there, each once.

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
        """Numbers of the files."""
        return tuple(range(len(self.paths)))

    @property
    def title(self) -> str:
        """The label, or what was given."""
        return self.label or printable(", ".join(self.files))

    def to_document(self) -> dict[str, Any]:
        """What defines it but for what the files hold, JSON-ready."""
        return {"files": list(self.files), **self._document()}

    def _given(self, *, in_seconds: bool) -> Iterator[tuple[int, Problem]]:
        for number, path in enumerate(self.paths):
            loaded = instances.load(path)
            yield number, loaded if loaded.name else loaded.renamed(printable(path.stem))


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
        """Numbers of the instances."""
        return tuple(range(len(instances.library().matching(*self.names))))

    @property
    def title(self) -> str:
        """The label, or what was given."""
        return self.label or ", ".join(self.names)

    def to_document(self) -> dict[str, Any]:
        """What defines it but for what the library holds, JSON-ready."""
        return {"library": list(self.names), **self._document()}

    def _given(self, *, in_seconds: bool) -> Iterator[tuple[int, Problem]]:
        for number, entry in enumerate(instances.library().matching(*self.names)):
            yield number, entry.instance


def _listed(field: str, names: Sequence[str] | str) -> tuple[str, ...]:
    """One name or several."""
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, Sequence) or not given:
        raise InvalidTypeError("instances", field, given, "is no list of names")
    return tuple(as_name(one, "instances", field) for one in given)


InstanceSource: TypeAlias = Family | TraceWindows | InstanceFiles | LibraryInstances
