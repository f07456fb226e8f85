"""Take over the settings of the engine that a log states, and tell those that it does not."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from instances import MemoryRule, Workload
from instances.logs.formats import ENGINE_SETTINGS
from instances.validation import as_integer
from online.policy_interface.policy import policy_names, policy_parameters
from online.policy_interface.specs import PolicySpec

from .answer import PolicyRun

OF_MEMORY = {"asynchronous", "prefix_caching", "scheduler_reserve_full_isl", "watermark"}
OF_MEMORY |= {"schedule_conservativeness"}
OF_REQUESTS = {"max_num_seqs", "max_running_requests"}
"""Parameters of policies that decide nothing while memory is ample, or requests are few."""

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


def without_effect(spec: PolicySpec, workload: Workload, run: PolicyRun | None) -> set[str]:
    """Return the settings that leave a run as it is.

    Limits above all that is present at any time have no effect, nor has what is done at a limit.
    """
    if run is None or run.latencies is None:
        return set()
    values = {**_parameters(spec.name), **spec.params}
    prompts, outputs = workload.prompt_lengths, workload.output_lengths
    times = np.concatenate([workload.arrival_times, workload.arrival_times + run.latencies])
    order = np.argsort(times, kind="stable")
    present, processed, stored = (
        int(np.cumsum(np.concatenate([column, -column])[order]).max())
        for column in (np.ones_like(prompts), prompts, prompts + outputs)
    )
    # Memory of requests that have just finished may be freed a round later.
    most = 2 * (stored + workload.memory_rule.block_size * present)
    none = OF_MEMORY if most <= workload.memory_limit else set()
    none |= {name for name in OF_REQUESTS if present <= values.get(name, 0)}
    if present + processed <= values.get("max_num_batched_tokens", 0):
        none |= {"max_num_batched_tokens", "enable_chunked_prefill"}
    if present == 1:
        none |= {"long_prefill_token_threshold", "prefill_schedule_interval"}
    if not values.get("long_prefill_token_threshold"):
        none |= {"long_prefill_token_threshold_adaptive"}
    return none


def assumed(spec: PolicySpec, rule: str, idle: Container[str] = ()) -> str:
    """Write which settings of the engine have default values, and how to give others."""
    known = {} if spec.given is not None else _parameters(spec.name)
    left = [
        f"{name}={value}"
        for name, value in known.items()
        if name not in spec.params and name not in idle
    ]
    told = [f"{', '.join(left)} (--baseline '{spec.name}(...)')"] if left else []
    return "; ".join([*told, f"memory in {rule} (--memory-rule)"] if rule else told)


def _parameters(name: str) -> dict[str, Any]:
    """Return the parameters of a policy that are settings of its engine, with their defaults."""
    if name not in policy_names():
        return {}
    # The block size is the memory rule's.
    wanted = {PARAMETERS.get(one, one) for one in ENGINE_SETTINGS} - {"block_size"}
    parameters = policy_parameters(name).items()
    return {one: parameter.default for one, parameter in parameters if one in wanted}


def settings_told(
    stated: Mapping[str, Any], engine: PolicySpec, rule: str, idle: Container[str] = ()
) -> dict[str, str]:
    """Return the engine's settings that the log states, and those assumed that have an effect."""
    settings = ", ".join(f"{name}={value}" for name, value in sorted(stated.items()))
    told = {"stated in the log": settings, "assumed": assumed(engine, rule, idle)}
    return {name: one for name, one in told.items() if one}
