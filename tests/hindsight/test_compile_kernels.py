"""Kernels compiled ahead: afterwards a solve compiles nothing more."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import numba
import pytest
from numba.core import event, types
from numba.core.dispatcher import Dispatcher

from hindsight import exact, paths, schedules
from hindsight.compile_kernels import compile_kernels
from hindsight.runtime.compilation import inner, reported_compilations


@pytest.fixture(scope="module")
def never_called() -> set[str]:
    """Compile all kernels, and return which of these parts did not run meanwhile."""
    parts = {
        schedules.improving: ("beam_schedule", "OrderAnnealing"),
        paths.refinement: ("coarsest_graph", "finer_graph"),
        exact.stops: ("expand_states", "dominated"),
    }
    left = {name for names in parts.values() for name in names}

    def noted(name: str, part: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            left.discard(name)
            return part(*arguments, **options)

        return run

    with pytest.MonkeyPatch.context() as patch:
        for module, names in parts.items():
            for name in names:
                patch.setattr(module, name, noted(name, getattr(module, name)))
        compile_kernels()
    return left


def test_each_part_runs_whatever_is_proved_before(never_called: set[str]) -> None:
    assert not never_called


def arrays_in(kind: types.Type) -> bool:
    if isinstance(kind, types.BaseTuple):
        return any(map(arrays_in, kind.types))
    return isinstance(kind, types.Array)


@pytest.mark.usefixtures("never_called")
def test_loops_without_references_return_no_array() -> None:
    # Without ``makes_arrays`` nothing counts who holds an array that is returned.
    modules = [module for name, module in sys.modules.items() if name.startswith("hindsight.")]
    loops = [one for module in modules for one in vars(module).values()]
    ours = [one for one in loops if isinstance(one, Dispatcher)]
    bare = [one for one in ours if one.targetoptions.get("_nrt") is False]
    results = {
        (one.py_func.__name__, of.signature.return_type)
        for one in bare
        for of in one.overloads.values()
    }
    assert len(results) > 12
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

    with reported_compilations(print), event.install_listener("numba:compile", Listener()):
        assert outer(4) == 8
    assert compiled == ["outer", "shifted"]
    assert not any(enabled)
    assert gc.isenabled()
    # Without a way in from Python a call of machine code would end the process.
    assert shifted(1) == 2
