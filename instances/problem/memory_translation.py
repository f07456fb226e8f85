"""Relaxation and restriction of a problem with a block memory rule, both counted in tokens.

The problem has blocks of B tokens and requests with prompt length s and output length o. At its
k-th token a request stores x_k = s + k - u tokens, where u = 1 if a token is stored in the next
round, else u = 0. It holds h_k = B ceil(x_k / B) tokens in blocks. All requests together may hold
at most L = B floor(M / B) tokens. The translated problem counts tokens: there a request with prompt
length p holds p + k tokens at its k-th token.

**Relaxation.** Let p = min over k of h_k - k, and the memory L tokens. Then p + k <= h_k in every
round. So a schedule that fits the blocks also fits L tokens with these prompts, and the optimum in
tokens is at most the one in blocks. This argument considers each round alone, so it also holds for
schedules with preemption.

**Restriction.** Let p = max over k of h_k - k, and the memory L + B - 1 tokens. In each round a
schedule holds at least as many tokens p + k as it holds in blocks. So in blocks it holds at most
L + B - 1 tokens. This number is a multiple of B, so it is at most L. So every schedule in tokens
fits the blocks. A request that fits alone in blocks (h_o <= L) also fits alone in tokens, because
x_o <= h_o and x_k >= h_k - B + 1: h_k - k + o = h_k + x_o - x_k <= h_o + B - 1 <= L + B - 1.

The unused part h_k - x_k of the blocks falls by one with every token, and is B - 1 again when a
block begins. So it is least where x_k is a multiple of B for the last time, or at the end. It is
largest where a block begins, or at the start. With B = 1 relaxation and restriction are the same
instance, with prompts s - u.

**In seconds** a round also lasts longer if more tokens are *stored*. So the relaxation has
p = s - u: every request stores p + k tokens, as in the problem. This is at most what it holds in
blocks, and all requests together hold at most L. Whether memory for prompts is allocated at once or
by chunks is the same in the translated rule.
"""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any, TypeVar

import numpy as np

from instances.arrays import IntArray

from .instance import ALLOW_ZERO_PROMPT_LENGTH, Instance
from .memory_rule import TOKENS, MemoryRule
from .workload import Workload

Problem = TypeVar("Problem", Instance, Workload)


def relaxed(problem: Problem) -> Problem:
    """Return a relaxation of ``problem`` whose memory is counted in tokens instead of blocks.

    Every feasible schedule of ``problem`` is feasible for the relaxation. So the optimum of the
    relaxation is a lower bound. With ``block_size`` 1 both have the same schedules.
    """
    rule = problem.memory_rule
    if _counts_tokens(problem):
        return problem
    first, last = _stored(problem)
    reaches_an_end = last // rule.block_size * rule.block_size >= first
    slack = np.where(reaches_an_end | isinstance(problem, Workload), 0, rule.held(last) - last)
    return _in_tokens(problem, slack, rule.limit(problem.memory_limit))


def restricted(problem: Problem) -> Problem:
    """Return a restriction of ``problem`` whose memory is counted in tokens instead of blocks.

    Every feasible schedule of the restriction is feasible for ``problem``. So the optimum of the
    restriction is an upper bound. With ``block_size`` 1 both have the same schedules.
    """
    rule = problem.memory_rule
    if _counts_tokens(problem):
        return problem
    first, last = _stored(problem)
    begins_a_block = (last - 1) // rule.block_size * rule.block_size + 1 >= first
    slack = np.where(begins_a_block, rule.block_size - 1, rule.held(first) - first)
    limit = rule.limit(problem.memory_limit) + rule.block_size - 1
    return _in_tokens(problem, slack, limit)


def pooled(instance: Instance) -> Instance:
    """Return a relaxation of a fleet: one machine with K times the memory, counted in tokens.

    The K replicas run the same rounds, and in each round they hold at most K times the memory of
    one replica. So every schedule of the fleet is a schedule of this machine. This holds for
    instances in rounds only: in seconds, a round of this machine would last longer than the rounds
    of the replicas.
    """
    one = relaxed(instance)
    if instance.replicas == 1:
        return one
    return Instance(one, instance.replicas * one.memory_limit, one.name, one.metadata)


def _counts_tokens(problem: Instance | Workload) -> bool:
    # If `MemoryRule` has another field, this line raises an error. The bounds would be false if a
    # field were ignored here.
    block_size, emitted_token, prompt_allocation = astuple(problem.memory_rule)
    is_whole = isinstance(problem, Workload) or prompt_allocation == "whole"
    return (block_size, emitted_token) == (1, "now") and is_whole


def _stored(problem: Instance | Workload) -> tuple[IntArray, IntArray]:
    """Return two arrays, shape (n,): tokens that requests store at their first and last token."""
    before = problem.prompt_lengths - problem.memory_rule.unstored
    return before + 1, before + problem.output_lengths


def _in_tokens(problem: Problem, slack: IntArray, limit: int) -> Problem:
    prompts = problem.prompt_lengths - problem.memory_rule.unstored + slack
    metadata = {} if prompts.all() else {ALLOW_ZERO_PROMPT_LENGTH: True}
    changes: dict[str, Any] = {"memory_limit": limit, "metadata": metadata, "memory_rule": TOKENS}
    if isinstance(problem, Workload):
        rule = MemoryRule(prompt_allocation=problem.memory_rule.prompt_allocation)
        return problem.replaced(**changes | {"memory_rule": rule, "prompt_lengths": prompts})
    rows = zip(problem, prompts.tolist(), strict=True)
    requests = [replace(request, prompt_length=prompt) for request, prompt in rows]
    return problem.replaced(requests=requests, **changes)
