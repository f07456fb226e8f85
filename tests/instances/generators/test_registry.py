"""`generate`: names, parameters, seeds, and what a generated instance says of itself."""

from __future__ import annotations

import inspect
import re
from unittest.mock import patch

import numpy as np
import pytest

from instances import Instance, InvalidTypeError, MemoryRule, generate, generator_names
from instances.generators import registry
from instances.generators.registry import register_generator

RANDOM_FAMILIES = ["arrival-model-1", "arrival-model-2"]


def test_names_are_sorted_and_hold_the_random_families() -> None:
    names = generator_names()
    assert names == sorted(set(names))
    for name in RANDOM_FAMILIES:
        parameters = inspect.signature(registry.GENERATORS[name]).parameters
        assert {key: one.default for key, one in parameters.items()} == dict.fromkeys(parameters)
        assert set(parameters) == {"n", "memory_limit"}


@pytest.mark.parametrize("name", RANDOM_FAMILIES)
def test_no_global_random_state_is_read_or_advanced(name: str) -> None:
    np.random.seed(1)  # noqa: NPY002, TID251 (the global state is what is tested)
    first = generate(name, seed=3).digest
    after = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002, TID251
    assert np.random.random() == after  # noqa: NPY002
    assert generate(name, seed=3).digest == first
    assert len({generate(name, seed=one).digest for one in range(30)}) == 30


@pytest.mark.parametrize("name", RANDOM_FAMILIES)
def test_the_instance_says_where_it_comes_from(name: str) -> None:
    instance = generate(name, seed=7, n=4)
    assert isinstance(instance, Instance)
    assert instance.metadata["origin"] == {"generator": name, "seed": 7, "parameters": {"n": 4}}
    assert instance.name is not None
    for part in (name, "seed=7", "n=4"):
        assert part in instance.name
    # What it says is enough to draw it again.
    origin = instance.metadata["origin"]
    again = generate(origin["generator"], origin["seed"], **origin["parameters"])
    assert again == instance


@patch.dict(registry.GENERATORS, clear=True)
def test_what_is_drawn_keeps_its_memory_rule() -> None:
    @register_generator("in-blocks")
    def in_blocks(rng: np.random.Generator) -> Instance:
        return Instance.from_arrays([3], [2], memory_limit=8, memory_rule=MemoryRule(4))

    assert generate("in-blocks").memory_rule == MemoryRule(4)


@patch.dict(registry.GENERATORS, clear=True)
def test_what_is_defined_again_takes_the_place_of_what_it_was() -> None:
    """A notebook's cell run again, and what its module is called in a worker process."""

    def cell(rng: np.random.Generator, *, n: int = 1) -> None:
        raise AssertionError("is not called")

    def edited(rng: np.random.Generator, *, m: int = 1) -> None:
        raise AssertionError("is not called")

    edited.__qualname__ = cell.__qualname__
    cell.__module__, edited.__module__ = "__main__", "__mp_main__"
    register_generator("from-a-cell")(cell)
    with pytest.warns(UserWarning, match="generator 'from-a-cell' is replaced: __main__") as told:
        register_generator("from-a-cell")(edited)
    assert told[0].filename == __file__
    assert registry.GENERATORS["from-a-cell"] is edited
    edited.__module__ = "elsewhere"
    register_generator("from-elsewhere")(edited)
    for other in ("from-a-cell", "from-elsewhere"):
        with pytest.raises(ValueError, match=f"'{other}' is registered twice, by "):
            register_generator(other)(lambda rng: None)


@patch.dict(registry.GENERATORS, clear=True)
def test_a_missing_parameter_is_named() -> None:
    @register_generator("needy")
    def needy(rng: np.random.Generator, *, n: int, share: float, memory_limit: int = 5) -> None:
        raise AssertionError("is not called")

    with pytest.raises(InvalidTypeError, match="^generator 'needy': share = None is not given"):
        generate("needy", n=3)


def test_every_generator_documents_its_source_and_each_parameter() -> None:
    for name in generator_names():
        text = inspect.getdoc(registry.GENERATORS[name]) or ""
        assert text.splitlines()[0].endswith("."), name
        for parameter in {*inspect.signature(registry.GENERATORS[name]).parameters} - {"rng"}:
            assert re.search(rf"^(\w+, )*{parameter}(, \w+)* : ", text, re.MULTILINE), (
                name,
                parameter,
            )
