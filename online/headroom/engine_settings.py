"""Take over the settings of the engine that a log states, and name those that it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from instances import MemoryRule
from instances.logs.formats import ENGINE_SETTINGS
from instances.validation import as_integer
from online.policy_interface.policy import POLICIES, named_parameters
from online.policy_interface.specs import PolicySpec

PARAMETERS = {"enable_prefix_caching": "prefix_caching", "async_scheduling": "asynchronous"}
"""Parameters of policies that are not called as the engine's settings are."""


def stated_memory(settings: Mapping[str, Any]) -> tuple[MemoryRule | None, int | None]:
    """Return the memory rule and M of an engine with these settings; None what they do not say.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A setting is not a number in its range.
    """
    size, blocks = settings.get("block_size"), settings.get("num_gpu_blocks")
    rule = None if size is None else MemoryRule(size, "next", "chunks")
    if rule is not None and blocks is not None:
        # vLLM counts a block that holds nothing.
        count = as_integer(blocks, None, "num_gpu_blocks", minimum=2) - 1
        return rule, count * rule.block_size
    return rule, settings.get("max_total_num_tokens")


def with_settings(spec: PolicySpec, baseline: str, settings: Mapping[str, Any]) -> PolicySpec:
    """Give a policy of the engine the settings that it has as parameters and was not given."""
    if spec.name != baseline or spec.given is not None:
        return spec
    known = _parameters(baseline)
    stated = {PARAMETERS.get(name, name): value for name, value in settings.items()}
    added = {name: value for name, value in stated.items() if name in known}
    return replace(spec, params={**added, **spec.params})


def settings_facts(stated: Mapping[str, Any], engine: PolicySpec, rule: str = "") -> dict[str, str]:
    """Return the settings of the engine that the log states, and those that are assumed.

    ``rule`` names the memory rule if that is assumed too.
    """
    known = {} if engine.given is not None else _parameters(engine.name)
    left = ", ".join(f"{key}={value}" for key, value in known.items() if key not in engine.params)
    assumed = f"{left} (--today '{engine.name}(...)')" if left else ""
    if rule:
        assumed = "; ".join(filter(None, [assumed, f"memory in {rule} (--rule)"]))
    settings = ", ".join(f"{name}={value}" for name, value in sorted(stated.items()))
    found = {"stated in the log": settings, "assumed": assumed}
    return {name: one for name, one in found.items() if one}


def _parameters(name: str) -> dict[str, Any]:
    """Return the parameters of a policy that are settings of its engine, with their defaults."""
    # The block size is the memory rule's.
    wanted = {PARAMETERS.get(one, one) for one in ENGINE_SETTINGS} - {"block_size"}
    parameters = named_parameters(POLICIES[name]).items() if name in POLICIES else ()
    return {one: parameter.default for one, parameter in parameters if one in wanted}
