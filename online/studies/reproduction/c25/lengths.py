"""[C25] Figure 4: lengths of 2,000 conversations, and the two laws that stand in for them.

The conversations are not part of this package. The first law is the one of the generator
``lmsys-like``: rounded lognormal, cut at the largest length published, with the mean and median
that [W25] states for the same data set. The second meets variance, mean and median of [C25]'s own
sample: a rounded generalised gamma law, cut at the same lengths. It is there to tell what of a
result hangs on the tail. Prompt and output are drawn independently of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from instances.generators.length_laws import Law, draw_lengths, moments
from instances.generators.synthetic_traces import CONVERSATION_OUTPUTS, CONVERSATION_PROMPTS
from online.pictures import new_axes
from online.pictures.style import INK, LINE_COLOURS, QUIET, dress, legend
from online.studies.reproduction.declaration import Outcome, Setting, register_reproduction
from online.studies.reproduction.verdicts import Statement

Lengths = npt.NDArray[np.int64]
LawName = Literal["lmsys-like", "three-moments"]

CONVERSATIONS = 2000
"""Sampled in [C25] Section 6."""

WITHIN = 0.10
"""Relative departure from a published figure that counts as the same."""

SAMPLES = 20
QUICK_SAMPLES = 3


@dataclass(frozen=True)
class Published:
    """What [C25] Section 6 states of its sample, in tokens.

    Attributes
    ----------
    variance : float
        Tokens squared.
    """

    smallest: int
    largest: int
    mean: float
    median: float
    variance: float

    @property
    def figures(self) -> Mapping[str, float]:
        """All five by name."""
        return {
            "smallest": self.smallest,
            "largest": self.largest,
            "mean": self.mean,
            "median": self.median,
            "variance": self.variance,
        }


PROMPTS = Published(1, 468, 41, 11, 4961)
OUTPUTS = Published(1, 883, 85, 43, 9702)


@cache
def three_moment_law(published: Published) -> Law:
    """A rounded generalised gamma law cut at the largest length, shape (largest,).

    Its scale is set by the median, its two shapes by mean and variance after rounding and cutting.
    """
    from scipy.optimize import root
    from scipy.stats import gengamma

    edges = np.arange(1, published.largest) + 0.5

    def law(logarithms: Sequence[float]) -> Law:
        shapes = gengamma(*np.exp(logarithms))
        scaled = edges / published.median * shapes.median()
        return np.diff(np.concatenate([[0.0], shapes.cdf(scaled), [1.0]]))

    def departure(logarithms: Sequence[float]) -> list[float]:
        mean, variance = moments(law(logarithms))
        return [mean / published.mean - 1, np.sqrt(variance / published.variance) - 1]

    found = root(departure, (0.5, -0.5), tol=1e-12)
    if not found.success or max(map(abs, departure(found.x))) > 1e-6:
        raise ArithmeticError(f"no generalised gamma law has the moments of {published}")
    return law(found.x)


@cache
def conversations(name: LawName, seed: int) -> tuple[Lengths, Lengths]:
    """Prompts and outputs of a synthetic sample, shape (CONVERSATIONS,) each."""
    rng = np.random.default_rng([seed, 4])
    laws = (
        (CONVERSATION_PROMPTS.law(), CONVERSATION_OUTPUTS.law())
        if name == "lmsys-like"
        else (three_moment_law(PROMPTS), three_moment_law(OUTPUTS))
    )
    prompts, outputs = (draw_lengths(rng, law, CONVERSATIONS) for law in laws)
    return prompts, outputs


def described(lengths: Lengths) -> Published:
    """The five figures of a sample; the variance is the sample's."""
    return Published(
        int(lengths.min()),
        int(lengths.max()),
        float(lengths.mean()),
        float(np.median(lengths)),
        float(lengths.var(ddof=1)),
    )


def departures(found: Sequence[Published], published: Published) -> dict[str, float]:
    """Mean over the samples, relative to the published figure, less 1."""
    return {
        name: float(np.mean([one.figures[name] for one in found])) / value - 1
        for name, value in published.figures.items()
    }


def statements(
    prompts: Mapping[str, float], outputs: Mapping[str, float], *, fitted: bool
) -> list[Statement]:
    """Each of the ten figures within 10 %; of laws that are ``fitted`` the variance alone tests it.

    Parameters
    ----------
    prompts, outputs : Mapping[str, float]
        `departures` of each.
    fitted : bool
        Whether range, mean and median were put into the law that the lengths are drawn from.
    """
    return [
        Statement(
            f"{figure} of {side} within {WITHIN:.0%} ({departure:+.0%})",
            abs(departure) <= WITHIN,
            by_construction=fitted and figure != "variance",
        )
        for side, departed in (("prompts", prompts), ("outputs", outputs))
        for figure, departure in departed.items()
    ]


@register_reproduction(
    "c25-figure-4",
    "C25",
    "Figure 4",
    "2,000 conversations: prompts 1 to 468, mean 41, median 11, variance 4961; outputs 1 to 883, "
    "mean 85, median 43, variance 9702",
)
def figure_4(setting: Setting) -> Outcome:
    """The synthetic stand-in beside the published figures."""
    seeds = range(QUICK_SAMPLES if setting.quick else SAMPLES)
    rows: list[list[Any]] = []
    sides: dict[LawName, tuple[dict[str, float], dict[str, float]]] = {}
    names: tuple[LawName, ...] = ("lmsys-like", "three-moments")
    for name in names:
        samples = [conversations(name, seed) for seed in seeds]
        found = [[described(sample[side]) for sample in samples] for side in (0, 1)]
        sides[name] = (departures(found[0], PROMPTS), departures(found[1], OUTPUTS))
        for what, published, each in zip(
            ("prompt", "output"), (PROMPTS, OUTPUTS), found, strict=True
        ):
            for figure, value in published.figures.items():
                values = [one.figures[figure] for one in each]
                rows.append([name, what, figure, value, float(np.mean(values))])
    texts = [
        _sentence(what, published, departed)
        for what, published, departed in zip(
            ("prompts", "outputs"), (PROMPTS, OUTPUTS), sides["lmsys-like"], strict=True
        )
    ]
    measured = f"synthetic lengths, means of {len(seeds)} samples: {'; '.join(texts)}"
    remark = (
        "synthetic lengths: range, mean and median are put into the law (from [W25]: 41.84 and 12, "
        "85.35 and 43), only the variance tests it; a second law, made to meet the variances too, "
        "is drawn beside it and used to check Figures 5 to 7"
    )
    return Outcome(
        ["law", "what", "figure", "published", "mean_of_samples"],
        rows,
        _draw(conversations("lmsys-like", 0)),
        measured,
        statements(*sides["lmsys-like"], fitted=True),
        remark,
    )


def _sentence(what: str, published: Published, departed: Mapping[str, float]) -> str:
    found = {name: value * (1 + departed[name]) for name, value in published.figures.items()}
    return (
        f"{what} {found['smallest']:.0f} to {found['largest']:.0f}, mean {found['mean']:.1f}, "
        f"median {found['median']:.1f}, variance {found['variance']:.0f} "
        f"({100 * departed['variance']:+.0f} %)"
    )


def _draw(sample: tuple[Lengths, Lengths]) -> Any:
    axes = new_axes(6.8, 3.0, columns=2)
    for ax, lengths, published, what in zip(
        axes, sample, (PROMPTS, OUTPUTS), ("prompt", "output"), strict=True
    ):
        edges = np.arange(0, 20 * -(-published.largest // 20) + 1, 20) + 0.5
        ax.hist(
            lengths,
            edges,
            color=LINE_COLOURS[5],
            edgecolor="white",
            linewidth=0.3,
            label="2,000 synthetic lengths",
        )
        law = three_moment_law(published)
        padded = np.pad(law, (0, len(edges) * 20 - len(law)))
        expected = [CONVERSATIONS * padded[at : at + 20].sum() for at in range(0, len(padded), 20)]
        ax.stairs(
            expected[: len(edges) - 1],
            edges,
            color=LINE_COLOURS[1],
            linewidth=1,
            label="law with the published variance",
        )
        ax.axvline(published.median, color=INK, linestyle="--", linewidth=0.9)
        ax.axvline(published.mean, color=QUIET, linestyle="-", linewidth=0.9)
        ax.set_yscale("symlog", linthresh=10)
        ax.set_ylim(0, 2 * CONVERSATIONS)
        ax.plot(
            [], [], "--", color=INK, linewidth=0.9, label=f"published median {published.median}"
        )
        ax.plot([], [], "-", color=QUIET, linewidth=0.9, label=f"published mean {published.mean}")
        dress(ax, "", f"{what} length (tokens)", "conversations in 20 tokens")
        legend(ax, loc="upper right")
    return axes[0].figure
