"""Explanations of surprises in the leaderboard: texts, apart from the numbers in them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import instances
from online.policy_interface.predictions import IntervalPredictions
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate

from .scores import SHORTEST_FIRST
from .standings import DECIMALS, Standing

HEADING = "### What surprises\n"

NO_LENGTHS = "c25-linearly-weighted-n50-00"
CODE = "azure-code-n200-00"
KEPT = "preemptive-j25-m1-n20-00"

TEXTS = (
    """**A serving engine comes nearest to the preemptive optimum**, once its queue is shortest
    output first: {vllm(order=shortest-output) @ preemptive}, where the best rule of the papers has
    {mc-sf-total @ preemptive}. Policies that never preempt hold memory free for what they have
    started to grow into: on `preemptive-j25-m1-n20-00` MC-SF holds {mc_sf_held} of {limit} tokens
    in the mean. vLLM fills it, {vllm_held} in the mean, and when it overflows takes requests out
    again, {vllm_preempted} times. In rounds a request that gave way keeps its tokens and goes on at
    no cost, so nothing of that is lost. In seconds the lead is gone: there prompts take the time,
    and shortest output first does not look at them, neither vLLM's
    ({vllm(order=shortest-output) @ seconds}) nor MC-SF's ({mc-sf @ seconds}); `mc-sf-total`, which
    does, has {mc-sf-total @ seconds}.""",
    """**`smallest-volume-first`, which has no known guarantee, is best or near it almost everywhere
    that lengths are known**: {smallest-volume-first @ j25-m1} on `j25-m1`, {smallest-volume-first
    @ w25} on `w25`, {smallest-volume-first @ azure-conv} on `azure-conv`. It orders by the token
    rounds that a request will hold, s o + o(o + 1)/2. Memory is what requests compete for, so that
    is how long each takes of the machine, and the shortest of these first is what one machine asks
    for. Where prompts are alike it is MC-SF's order; where they are not, MC-SF takes a long prompt
    for its short output ({mc-sf @ w25} on `w25`). Among the worst cases it comes
    to {smallest-volume-first @ worst: max}: a
    request that is alone at round 0 is started and fills the memory, and the small ones of the next
    rounds wait for its end, as they do behind whatever starts what fits.""",
    """**`mc-sf` knows every length and does on `azure-code` little better than `fcfs`, which asks
    for none**: {mc-sf @ azure-code} and {fcfs @ azure-code}. In units of 64 tokens
    {ones} % of the outputs of `azure-code-n200-00` are a single one: shortest output first has
    nothing to order by, and leaves ties in order of arrival. What differs are the prompts, 1 to
    {longest} units, which hold {prompts} % of the token rounds, and which MC-SF does not look at.
    `mc-sf-total`, the same rule by prompt and output together, has {mc-sf-total @ azure-code}.""",
    """**Told an interval, `fcfs-greedy`, which never looks at it, beats `a-min`, which is made for
    it**: {fcfs-greedy @ c25, told an interval} and {a-min @ c25, told an interval} on `c25`, where
    planning with upper ends costs {a-max @ c25, told an interval} (`a-max`). Both start whatever
    fits now and evict what turns out not to. They differ in whom: A_min the smallest bound, which
    all share at first, so that chance decides and may take a request that is nearly done; greedy
    the latest admitted, which has generated least. With prompts of no tokens an eviction costs
    nothing but tokens generated: on `c25-linearly-weighted-n50-00` greedy throws away
    {greedy_lost} rounds of work in {greedy_evictions} evictions, A_min {a_min_lost} in
    {a_min_evictions}. A_min's guarantee is one for large M, and about its growth in the width of
    the interval.""",
)
"""``{policy @ column}`` stands for a mean ratio, ``{policy @ column: max}`` for the largest of the
set, any other name in braces for one of `_facts`."""

_RATIO = re.compile(r"\{(?P<policy>[^@{}]+) @ (?P<column>[^:}]+)(?P<largest>: max)?\}")
_FACT = re.compile(r"\{(?P<name>\w+)\}")


def surprises(standings: Sequence[Standing]) -> list[str]:
    """The texts with their numbers; none where a table has not all of them."""
    by_place = {(one.policy, one.column): one for one in standings}
    facts = _facts()

    def ratio(found: re.Match[str]) -> str:
        one = by_place[found["policy"], found["column"]]
        return (one.max_ratio if found["largest"] else one.mean_ratio).text(DECIMALS)

    told = []
    for number, text in enumerate(TEXTS, 1):
        flat = " ".join(text.split())
        try:
            filled = _RATIO.sub(ratio, flat)
        except KeyError:
            return []
        told.append(f"{number}. {_FACT.sub(lambda found: str(facts[found['name']]), filled)}\n")
    return [HEADING, *told]


def _facts() -> dict[str, int]:
    """Compute the facts about single instances in the explanations, by lookup and replay."""
    code, vague = (instances.library(name).problem for name in (CODE, NO_LENGTHS))
    prompts, outputs = code.prompt_lengths, code.output_lengths
    held = int((outputs * prompts).sum())
    facts = {
        "ones": round(100 * int((outputs == 1).sum()) / len(code)),
        "longest": int(prompts.max()),
        "prompts": round(100 * held / (held + int((outputs * (outputs + 1) // 2).sum()))),
    }
    lengths = vague.output_lengths
    told = IntervalPredictions(int(lengths.min()), int(lengths.max()))
    for name, policy in (("greedy", "fcfs-greedy"), ("a_min", "a-min")):
        run = simulate(vague, policy, seed=0, predictions=told)
        stays = run.attempts
        lost = (stays.end_round - stays.start_round)[~stays.completed]
        facts |= {f"{name}_lost": int(lost.sum()), f"{name}_evictions": run.evictions}
    kept = instances.library(KEPT).problem
    engine = simulate(kept, make_policy("vllm", **SHORTEST_FIRST), seed=0)
    for name, run in (("mc_sf", simulate(kept, "mc-sf", seed=0)), ("vllm", engine)):
        facts[f"{name}_held"] = round(float(run.memory_profile()[1:].mean()))
    return facts | {"limit": kept.memory_limit, "vllm_preempted": engine.evictions}
