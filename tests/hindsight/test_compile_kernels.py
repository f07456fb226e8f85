"""Kernels compiled ahead: afterwards a solve compiles nothing more."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numba
import pytest
from empty_cache import printed_without_cache
from numba.core import event, types
from numba.core.dispatcher import Dispatcher

from hindsight.compile_kernels import compile_kernels
from hindsight.runtime import second_compiler as beside
from hindsight.runtime.compilation import inner, njit
from hindsight.runtime.second_compiler import second_compiler
from hindsight.strategies import beams, paths, preemptive

PROGRAM = """
import hindsight
from hindsight.compile_kernels import compile_kernels
from hindsight.runtime.compilation import heard_compiling
from instances import generate

compile_kernels()
compiled = []
with heard_compiling(compiled.append):
    for model, n in ((1, 5), (2, 5), (1, 30)):
        hindsight.solve(generate(f"arrival-model-{model}", seed=1, n=n), time_limit=2, threads=1)
print(compiled)
"""


SHARED = """
from hindsight.compile_kernels import compile_kernels
from hindsight.runtime.compilation import heard_compiling

here, all_of_them, left = [], [], []
with heard_compiling(here.append):
    compile_kernels(lambda name, seconds: all_of_them.append(name))
with heard_compiling(left.append):
    compile_kernels()
print(len(here), len(all_of_them) - len(here), len(left))
"""

FIRST_SOLVE = """
import hindsight
from hindsight.runtime.compilation import heard_compiling
from instances import generate

instance = generate("arrival-model-2", seed=0, n=15)
compiled = []
with heard_compiling(compiled.append):
    result = hindsight.solve(instance, threads=2)
print(result.status, "hindsight.paths.layer_kernels.extend_sets" not in compiled)
"""


def test_each_part_runs_whatever_is_proved_before(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {
        beams: ("beam_schedule", "shift_left"),
        paths: ("coarsest_graph", "finer_graph"),
        preemptive: ("ascend", "preemptive_price_bound"),
    }
    left = {name for names in parts.values() for name in names}

    def noted(name: str, part: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            left.discard(name)
            return part(*arguments, **options)

        return run

    for module, names in parts.items():
        for name in names:
            monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    compile_kernels()
    assert not left


def arrays_in(kind: types.Type) -> bool:
    if isinstance(kind, types.BaseTuple):
        return any(map(arrays_in, kind.types))
    return isinstance(kind, types.Array)


def test_loops_without_references_return_no_array() -> None:
    # Without ``makes_arrays`` nothing counts who holds an array that is returned.
    compile_kernels()
    modules = [module for name, module in sys.modules.items() if name.startswith("hindsight.")]
    loops = [one for module in modules for one in vars(module).values()]
    ours = [one for one in loops if isinstance(one, Dispatcher)]
    bare = [one for one in ours if one.targetoptions.get("_nrt") is False]
    results = {
        (one.py_func.__name__, of.signature.return_type)
        for one in bare
        for of in one.overloads.values()
    }
    assert len(results) > 20
    assert not {name for name, result in results if arrays_in(result)}


def test_an_inner_loop_is_compiled_once_and_without_the_collector() -> None:
    @inner
    def shifted(by: int) -> int:
        return by + 1

    @numba.njit
    def outer(by: int) -> int:
        return shifted(0) + shifted(1) + shifted(by)

    gc.enable()
    enabled, compiled = [], []

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            enabled.append(gc.isenabled())
            compiled.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: event.Event) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        assert outer(4) == 8
    assert compiled == ["outer", "shifted"]
    assert not any(enabled)
    assert gc.isenabled()
    # Without a way in from Python a call of machine code would end the process.
    assert shifted(1) == 2


def compiled_nowhere(tmp_path: Path) -> Any:
    """Return a loop that is stored on disk once it is compiled, which it is not."""
    path = tmp_path / "loops.py"
    path.write_text("def loop(x):\n    return x + 1\n")
    known: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), known)
    return njit(known["loop"])


def test_a_second_process_tells_what_it_compiled_and_ends_with_the_block(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(beside, "available_cores", lambda: 2)
    monkeypatch.setattr(beside, "PROGRAM", "print('1.5 here.loop', flush=True); input()")
    told = Event()
    heard = []
    with second_compiler(
        ("graphs",), compiled_nowhere(tmp_path), lambda *news: (heard.append(news), told.set())
    ) as at_work:
        assert told.wait(30)
        assert at_work()
    assert heard == [("here.loop", 1.5)]
    assert not at_work()


@pytest.mark.parametrize(
    "reason", ["one core", "no part", "compiled", "no file", "no name", "frozen"]
)
def test_there_is_no_second_process_where_it_would_not_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str
) -> None:
    monkeypatch.setattr(beside, "available_cores", lambda: 1 if reason == "one core" else 2)
    if reason in ("no file", "no name"):
        interpreter = None if reason == "no name" else str(tmp_path / "python")
        monkeypatch.setattr(sys, "executable", interpreter)
    if reason == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    loop = compiled_nowhere(tmp_path)
    if reason == "compiled":
        loop(1)
    with second_compiler(() if reason == "no part" else ("graphs",), loop) as at_work:
        assert not at_work()


@pytest.mark.slow
def test_the_second_process_compiles_half_of_the_loops(tmp_path: Path) -> None:
    printed = printed_without_cache(SHARED, tmp_path).split()
    assert len(printed) == 3
    here, beside, left = map(int, printed)
    assert here > 10
    assert beside > 10
    assert left == 0


@pytest.mark.slow
def test_a_first_solve_with_two_threads_proves_the_optimum(tmp_path: Path) -> None:
    assert printed_without_cache(FIRST_SOLVE, tmp_path).strip() == "optimal True"


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    # An empty cache: code that is only loaded from it raises no event.
    assert printed_without_cache(PROGRAM, tmp_path).strip() == "[]"
