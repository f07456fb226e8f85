"""Every numbered statement of the papers, with the reason where the package has none.

Of [F26] these are the statements up to Theorem 4.1; the steps of its proofs are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from studies.reproduction.paper_items import ITEMS

from .citations import Statement


@dataclass(frozen=True)
class Result:
    """A statement and what it is about.

    Attributes
    ----------
    statement : Statement
        Its paper, kind and number.
    says : str
        Its subject, in a few words.
    absent : str
        Why the package does not have it; empty where it does.
    untested : str
        Why no test checks it although the package states it; empty where one does.
    """

    statement: Statement
    says: str
    absent: str = ""
    untested: str = ""


STEP = "a step of a proof"
COUPLING = "a coupling within a proof"
COST = "a bound on running time; what decisions cost here is in docs/measurements/speed.md"


def _result(paper: str, label: str, says: str, absent: str = "", untested: str = "") -> Result:
    kind, number = label.split(" ")
    return Result(Statement(paper, kind, number), says, absent, untested)


RESULTS = (
    _result("J25", "Theorem 4.1", "no deterministic policy is within a constant of sqrt(n)"),
    _result("J25", "Proposition 4.2", "cost of MC-SF a round", COST),
    _result("J25", "Theorem 4.3", "MC-SF with equal prompts, all at once: a constant"),
    _result("J25", "Lemma 4.4", "total latency of MC-SF from above, by volumes"),
    _result("J25", "Lemma 4.5", "time MC-SF spends on one class of outputs", STEP),
    _result("J25", "Claim 4.6", "peak memory by volume", STEP),
    _result("J25", "Lemma 4.7", "the optimum from below, by volumes"),
    _result("J25", "Claim 4.8", "first start of each output length in the relaxation", STEP),
    _result("J25", "Lemma B.1", "the dual pair satisfies (23)", STEP),
    _result("J25", "Lemma B.2", "a sum of the dual pair", STEP),
    _result("J25", "Algorithm 1", "MC-SF"),
    _result("J25", "Algorithm 2", "MC-Benchmark"),
    _result(
        "C25", "Definition 3.1", "competitive ratio", "ratios to H-SF have no object of their own"
    ),
    _result("C25", "Example 3.2", "A_max leaves memory idle"),
    _result("C25", "Theorem 3.3", "A_max from above"),
    _result("C25", "Theorem 3.4", "A_max from below"),
    _result("C25", "Theorem 4.1", "cost of A_min", COST),
    _result(
        "C25",
        "Theorem 4.2",
        "no policy without the outputs is better than A_min",
        untested="a statement on every policy as M grows",
    ),
    _result("C25", "Theorem 4.3", "A_min: logarithmic in 1/alpha"),
    _result("C25", "Lemma 4.4", "who survives an eviction of A_min"),
    _result("C25", "Proposition 4.5", "completions of A_min in each period", STEP),
    _result("C25", "Lemma 4.6", "ratio of A_min for given shares of lengths"),
    _result("C25", "Corollary 4.8", "the worst shares as a Rayleigh quotient"),
    _result("C25", "Lemma 4.9", "both matrices are positive definite"),
    _result(
        "C25",
        "Corollary 4.10",
        "A_min with an interval for each request",
        untested="an order of growth as M grows, without a constant",
    ),
    _result("C25", "Theorem 5.1", "A_min on two lengths"),
    _result("C25", "Theorem 5.2", "A_l on two lengths"),
    _result("C25", "Theorem 5.3", "A_min on linearly weighted geometric lengths"),
    _result("C25", "Definition 8.1", "schedules that correspond in order"),
    _result("C25", "Example 8.2", "schedules that do and do not"),
    _result("C25", "Definition 8.3", "optimally packed schedules"),
    _result("C25", "Proposition 8.4", "latency of a packed schedule with less memory", STEP),
    _result("C25", "Theorem 8.6", "A_random: worst outputs and ratio"),
    _result("C25", "Definition 8.7", "orders of requests, coupled", COUPLING),
    _result("C25", "Lemma 8.8", "A_random with less memory", STEP),
    _result("C25", "Definition 10.3", "A_max and A_random, coupled", COUPLING),
    _result("C25", "Definition 10.5", "A_random at two memories, coupled", COUPLING),
    _result("C25", "Algorithm 1", "A_max"),
    _result("C25", "Algorithm 2", "A_min"),
    _result("C25", "Algorithm 3", "H-SF"),
    _result("C25", "Algorithm 4", "A_random"),
    _result("C25", "Algorithm 5", "A_min with an interval for each request"),
    _result("C25", "Algorithm 6", "A_l"),
    _result("W25", "Theorem 1", "FCFS and MC-SF are unbounded"),
    _result("W25", "Theorem 2", "total latency is NP-hard, by 3-Partition"),
    _result("W25", "Example 1", "one long prompt before many short ones"),
    _result("W25", "Example 2", "two batches, one after the other"),
    _result("W25", "Lemma 1", "no output of a best batch exceeds twice their mean"),
    _result(
        "W25",
        "Theorem 3",
        "Sorted-F: below 48 times the optimum",
        untested="a factor no instance comes near; measured: docs/worst-case.md",
    ),
    *(
        _result("W25", f"Theorem {number}", says, STEP)
        for number, says in (
            (4, "batches taken apart"),
            (5, "batches grouped"),
            (6, "groups aligned"),
            (7, "the optimum aligned"),
            (8, "both alignments compared"),
        )
    ),
    _result("W25", "Definition 1", "groups of batches", STEP),
    _result("W25", "Lemma 2", "times of the batches of a group", STEP),
    _result("W25", "Theorem EC.1", "smallest s + o first is unbounded"),
    _result("W25", "Theorem EC.2", "the makespan is NP-hard, by Partition"),
    _result("W25", "Algorithm 1", "Sorted-F"),
    _result("W25", "Algorithm 2", "a best batch, exactly"),
    _result("W25", "Algorithm 3", "a good batch, on rounded numbers"),
    _result("W25", "Algorithm 4", "a batch improved by exchanges"),
    _result("W25", "Algorithm 5", "a batch below two quantiles"),
    _result("W25", "Algorithm 6", "Sorted-LP"),
    _result("W25", "Algorithm 7", "LP-Swap"),
    _result("A25", "Example 1", "memory of a prompt, stage by stage", "told by Example 2 as well"),
    _result("A25", "Proposition 1", "no policy is stable beyond the load 1"),
    _result(
        "A25",
        "Proposition 2",
        "no policy exceeds the throughput of the equilibrium",
        "`Equilibrium.throughput` is the value; in a finite run chance may exceed it",
    ),
    _result("A25", "Proposition 3", "greedy FCFS loses throughput for good"),
    _result("A25", "Example 2", "a cascade of evictions"),
    _result("A25", "Theorem 1", "gaps of WAIT"),
    _result(
        "A25",
        "Proposition 4",
        "no policy waits less than the order of sqrt(T) at C = M*",
        "a statement on every policy, on one instance of the proof",
    ),
    _result("A25", "Example 3", "outputs unknown at arrival", "a motivation, without figures"),
    _result(
        "A25",
        "Proposition 5",
        "no policy that is blind to types keeps up at C = M*",
        "a statement on every policy, on one instance of the proof",
    ),
    _result("A25", "Theorem 2", "gaps and overflow of Nested WAIT"),
    _result(
        "A25",
        "Theorem 3",
        "Nested WAIT under rates that change",
        "thresholds are designed for constant rates only",
    ),
    _result("A25", "Theorem 4", "Nested WAIT with merged segments"),
    *(
        _result("A25", f"Lemma {number}", says, STEP)
        for number, says in (
            (1, "queue length and time stuck"),
            (2, "a process that dominates the queue"),
            (3, "Lindley's representation"),
            (4, "maximum of a random walk"),
            (5, "throughput gap"),
            (6, "the dominating process of many types"),
            (7, "the dominating process of a segment"),
            (8, "theta exists once, and is bounded by (22)"),
            (9, "the dominating process under rates that change"),
        )
    ),
    _result("A25", "Algorithm 1", "WAIT"),
    _result("A25", "Algorithm 2", "Nested WAIT"),
    _result("F26", "Algorithm 1", "a staggered pipeline"),
    _result("F26", "Algorithm 2", "GSA"),
    _result("F26", "Algorithm 3", "GBA"),
    _result("F26", "Example 3.1", "fifteen equal requests"),
    _result(
        "F26",
        "Theorem 3.2",
        "a staggered pipeline of equal requests: 2, and 1 as M grows",
        "a pipeline of its own, without phases, is no policy here",
    ),
    _result("F26", "Lemma 3.3", "peak memory of a staggered pipeline"),
    _result("F26", "Lemma 3.4", "how many slices run at once"),
    _result("F26", "Definition 3.7", "memory-time area", "the volume of [J25] Equation (9)"),
    _result("F26", "Lemma 3.8", "the optimum from below, by areas", STEP),
    _result("F26", "Lemma 3.9", "time a slice takes in a pipeline, by areas", STEP),
    _result("F26", "Example 3.14", "one long request before short ones"),
    _result("F26", "Theorem 3.15", "GSA: 61.92 times the optimum, 32 as M grows"),
    _result("F26", "Theorem 4.1", "GBA: 32/3 times the optimum, 6.75 as M grows"),
    *(_result(item.paper, item.label, item.shows, item.not_measured) for item in ITEMS),
)

SUBJECTS = {
    Statement(paper, kind, number): says
    for paper, kind, number, says in (
        ("J25", "Equation", "(1)", "the objective, total latency"),
        ("J25", "Equation", "(2)", "every request starts once"),
        ("J25", "Equation", "(3)", "memory in every round"),
        ("J25", "Equation", "(4)", "starts are whole"),
        ("J25", "Equation", "(5)", "the look-ahead test of a batch"),
        ("J25", "Equation", "(9)", "the optimum from below, by smallest volumes"),
        ("J25", "Equation", "(25)", "the dual pair for equal requests"),
        ("J25", "Equation", "(26)", "the dual pair for equal requests"),
        ("J25", "Equation", "(27)", "the dual pair for equal requests"),
        ("J25", "Section", "2", "the model"),
        ("J25", "Section", "3", "the hindsight optimum"),
        ("J25", "Section", "5.1", "Arrival Models 1 and 2"),
        ("J25", "Section", "5.2", "experiments on conversations"),
        ("J25", "Section", "6", "outputs known up to an error"),
        ("J25", "Appendix", "B.3", "equal requests"),
        ("J25", "Appendix", "C", "experiments on conversations, further"),
        ("C25", "Equation", "(3)", "the look-ahead test with bounds for outputs"),
        ("C25", "Section", "2", "the model, and one interval for all"),
        ("C25", "Section", "4.1", "A_min: logarithmic in 1/alpha"),
        ("C25", "Section", "4.2", "an interval for each request"),
        ("C25", "Section", "5", "laws of output lengths"),
        ("C25", "Section", "5.1", "two lengths, and the switch at alpha*"),
        ("C25", "Section", "5.2", "geometric lengths"),
        ("C25", "Section", "5.3", "linearly weighted geometric lengths"),
        ("C25", "Section", "6", "experiments"),
        ("W25", "Equation", "(8)", "Relax-LP: the objective"),
        ("W25", "Equation", "(9)", "Relax-LP: every request starts once"),
        ("W25", "Equation", "(10)", "Relax-LP: memory in every round"),
        ("W25", "Equation", "(11)", "Relax-LP: starts are shares"),
        ("W25", "Section", "3", "F, the quality of a batch"),
        ("W25", "Section", "7", "experiments: conversations and summaries"),
        ("W25", "Section", "EC.1", "smallest s + o first; the makespan"),
        ("W25", "Section", "EC.4.2", "five families of lengths"),
        ("A25", "Equation", "(1)", "time of an iteration"),
        ("A25", "Equation", "(4)", "memory of the prompts in service"),
        ("A25", "Equation", "(5)", "equilibrium memory, one type"),
        ("A25", "Equation", "(6)", "equilibrium throughput, one type"),
        ("A25", "Equation", "(7)", "prompts in service at the equilibrium"),
        ("A25", "Equation", "(8)", "equilibrium memory"),
        ("A25", "Equation", "(9)", "time of an iteration at the equilibrium"),
        ("A25", "Equation", "(10)", "equilibrium throughput"),
        ("A25", "Equation", "(11)", "conditions on thresholds of WAIT"),
        ("A25", "Equation", "(12)", "drift at the boundaries of Nested WAIT"),
        ("A25", "Equation", "(13)", "memory of full batches"),
        ("A25", "Equation", "(14)", "memory that makes overflow improbable"),
        ("A25", "Equation", "(16)", "drift, merged segments"),
        ("A25", "Equation", "(17)", "memory that makes overflow improbable, merged segments"),
        ("A25", "Equation", "(18)", "time of a full iteration of WAIT"),
        ("A25", "Equation", "(20)", "theta, the decay of a boundary queue"),
        ("A25", "Equation", "(22)", "theta from below"),
        ("A25", "Section", "2", "the model"),
        ("A25", "Section", "2.2", "types of prompts"),
        ("A25", "Section", "2.4", "memory and eviction"),
        ("A25", "Section", "3", "the fluid equilibrium"),
        ("A25", "Section", "4.3", "throughput gap and latency"),
        ("A25", "Section", "5.1", "segments of Nested WAIT"),
        ("A25", "Section", "6", "experiments"),
        ("A25", "Section", "6.1", "WAIT: workloads and thresholds"),
        ("A25", "Section", "6.2", "Nested WAIT: workloads and thresholds"),
        ("A25", "Section", "7.2", "types merged into segments"),
        ("F26", "Section", "7.2", "experiments: six long requests among short ones"),
        ("A25", "Appendix", "A.3", "Proposition 3, proved"),
        ("A25", "Appendix", "C.4", "Theorem 2, proved"),
    )
}
"""Of equations and sections, of which only those that the package cites are listed."""
