"""All tables and figures of the papers, with reasons why some of them are not measured."""

from __future__ import annotations

from dataclasses import dataclass

PAPERS = {
    "J25": "Jaillet, Jiang, Mellou, Molinaro, Podimata and Zhou: "
    "Online scheduling for LLM inference with KV cache constraints",
    "C25": "Chen, Ye and Zhou: "
    "Adaptively robust LLM inference optimization under prediction uncertainty",
    "W25": "Wang, Ye and Zhou: LLM serving optimization with variable prefill and decode lengths",
    "A25": "Ao, Luo, Simchi-Levi and Wang: "
    "Optimizing LLM inference: fluid-guided online scheduling with memory constraints",
}
"""Papers whose tables and figures are measured again."""


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper.

    Attributes
    ----------
    paper, label : str
        Labels such as ``"J25"`` and ``"Figure 3"``.
    shows : str
        Subject of the table or figure, in a few words.
    not_measured : str
        Why no reproduction measures it. Empty if one does.
    """

    paper: str
    label: str
    shows: str
    not_measured: str = ""


DRAWING = "a drawing: nothing to measure"
EXAMPLE = "numbers of an example, in docs/policies.md"
ITEMS = (
    Item("J25", "Figure 1", "batching over time, by example", DRAWING),
    Item("J25", "Figure 2", "ratio of MC-SF to the hindsight optimum, 200 + 200 trials"),
    Item("J25", "Figure 3", "mean latency over the number of requests, high and low demand"),
    Item("J25", "Figure 4", "inference of one prompt", DRAWING),
    Item("J25", "Figure 5", "prompt and output lengths of the conversations"),
    Item("J25", "Figure 6", "memory of MC-SF over time, high demand"),
    Item("J25", "Figure 7", "mean latency over alpha, high demand"),
    Item("J25", "Figure 8", "mean latency over beta, high demand"),
    Item("J25", "Figure 9", "memory of MC-SF over time, low demand"),
    Item("J25", "Figure 10", "mean latency over alpha, low demand"),
    Item("J25", "Figure 11", "mean latency over beta, low demand"),
    Item("J25", "Table 1", "mean latency of eight algorithms, 50 runs"),
    Item("C25", "Figure 1", "competitive ratio of A_min over u, with its logarithmic fit"),
    Item("C25", "Figure 2", "bounds of A_min and A_l on two lengths"),
    Item("C25", "Figure 3", "competitive ratio of A_min on geometric lengths"),
    Item("C25", "Figure 4", "prompt and output lengths of the conversations"),
    Item("C25", "Figure 5", "mean latency, every prediction [1, 1000]"),
    Item("C25", "Figure 6", "mean latency, ten classes of outputs"),
    Item("C25", "Figure 7", "mean latency, predictions (1 - x) o to (1 + x) o"),
    Item("W25", "Table 1", "two request types, by example", EXAMPLE),
    Item("W25", "Table 2", "two batches, by example", EXAMPLE),
    Item("W25", "Figure 1", "a step of a proof", DRAWING),
    Item("W25", "Figure 2", "a step of a proof", DRAWING),
    Item("W25", "Figure 3", "a step of a proof", DRAWING),
    Item("W25", "Figure 4", "a step of a proof", DRAWING),
    Item("W25", "Table 3", "properties of the batch builders, in words", "no figures in it"),
    Item("W25", "Figure 5", "prompt and output lengths of the conversations"),
    Item("W25", "Figure 6", "prompt and output lengths of the summaries"),
    Item("W25", "Figure 7", "prompt and output lengths of the mixture"),
    Item("W25", "Figure 8", "mean latency over the number of requests, mixed lengths"),
    Item("W25", "Figure EC.1", "prompt lengths of the mixed family"),
    Item("W25", "Figure EC.2", "mean latency of Sorted-F and LP-Swap, mixed lengths"),
    Item("W25", "Table EC.1", "total latency of three algorithms on five families"),
    Item("A25", "Table 1", "notation", "no figures in it"),
    Item("A25", "Figure 1", "inference of one prompt", DRAWING),
    Item("A25", "Figure 2", "batching over time, by example", DRAWING),
    Item("A25", "Figure 3", "time of an iteration over tokens held", "needs the GPU of the paper"),
    Item("A25", "Figure 4", "pipeline of WAIT", DRAWING),
    Item("A25", "Figure 5", "pipeline of Nested WAIT", DRAWING),
    Item("A25", "Figure 6", "Nested WAIT by example", DRAWING),
    Item("A25", "Figure 7", "throughput and latency of WAIT over arrival rates, first workload"),
    Item("A25", "Figure 8", "throughput and latency of WAIT over arrival rates, second workload"),
    Item("A25", "Figure 9", "prompt and output lengths of the conversations"),
    Item("A25", "Figure 10", "mean prompt length by class of output"),
    Item("A25", "Figure 11", "Nested WAIT, synthetic lengths"),
    Item("A25", "Figure 12", "Nested WAIT, ten output lengths, 55 queries a second"),
    Item("A25", "Figure 13", "Nested WAIT, ten output lengths, 550 queries a second"),
    Item("A25", "Figure 14", "Nested WAIT, conversations"),
    Item("A25", "Figure 15", "arrival rates of output lengths"),
    Item("A25", "Figure 16", "memory over the number of segments, rate 50"),
    Item("A25", "Figure 17", "memory over the number of segments, rate 500"),
    Item("A25", "Figure 18", "memory over the number of segments, two horizons"),
)
