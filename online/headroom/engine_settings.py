"""Use the engine settings that a log states, and list settings that must be assumed."""

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
"""Names of policy parameters by name of the engine setting, if the two names differ."""

NOTES = {("prefix_caching", True): " (a preempted request finds its own blocks)"}
"""What an assumed setting means, by parameter and value."""


def stated_memory(settings: Mapping[str, Any]) -> tuple[MemoryRule | None, int | None]:
    """Return the memory rule and M (tokens) that follow from an engine's settings.

    Each of the two is None if the settings do not determine it.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A setting is not a number in its range.
    """
    size, blocks = settings.get("block_size"), settings.get("num_gpu_blocks")
    rule = None if size is None else MemoryRule(size, "next", "chunks")
    if rule is not None and blocks is not None:
        # vLLM's number of GPU blocks includes one block that never holds tokens.
        count = as_integer(blocks, None, "num_gpu_blocks", minimum=2) - 1
        return rule, count * rule.block_size
    return rule, settings.get("max_total_num_tokens")


def with_settings(spec: PolicySpec, baseline: str, settings: Mapping[str, Any]) -> PolicySpec:
    """Return a policy with parameters taken from the engine settings that a log states.

    This applies to the policy named ``baseline``, the engine of today. Parameters that ``spec`` has
    already are kept. Settings that are not parameters of the policy are ignored.
    """
    if spec.name != baseline or spec.given is not None:
        return spec
    known = _parameters(baseline)
    stated = {PARAMETERS.get(name, name): value for name, value in settings.items()}
    added = {name: value for name, value in stated.items() if name in known}
    return replace(spec, params={**added, **spec.params})


def settings_facts(stated: Mapping[str, Any], engine: PolicySpec, rule: str = "") -> dict[str, str]:
    """Return facts for a report: engine settings that the log states, and assumed settings.

    Assumed settings are the parameters of ``engine`` that have their defaults. ``rule`` is the name
    of the memory rule if the log does not state one, and else empty.
    """
    known = {} if engine.given is not None else _parameters(engine.name)
    defaults = (pair for pair in known.items() if pair[0] not in engine.params)
    left = ", ".join(f"{pair[0]}={pair[1]}{NOTES.get(pair, '')}" for pair in defaults)
    assumed = f"{left} (--today '{engine.name}(...)')" if left else ""
    if rule:
        assumed = "; ".join(filter(None, [assumed, f"memory in {rule} (--rule)"]))
    settings = ", ".join(f"{name}={value}" for name, value in sorted(stated.items()))
    found = {"stated in the log": settings, "assumed": assumed}
    return {name: one for name, one in found.items() if one}


def _parameters(name: str) -> dict[str, Any]:
    """Return the parameters of a policy that are settings of its engine, with their defaults."""
    # The block size belongs to the memory rule, not to the policy.
    wanted = {PARAMETERS.get(one, one) for one in ENGINE_SETTINGS} - {"block_size"}
    parameters = named_parameters(POLICIES[name]).items() if name in POLICIES else ()
    return {one: parameter.default for one, parameter in parameters if one in wanted}
