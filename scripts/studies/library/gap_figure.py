"""Picture of the gaps of the library's records over the number of requests."""

from __future__ import annotations

from typing import Any

from online.pictures import style

from .summary import Known

FIRST_PANEL = ("j25-m1", "j25-m2", "w25", "c25", "adversary", "worst")
LINEAR = 0.1
"""Gap in per cent below which the axis is linear and not logarithmic, so that it includes 0."""


def series(set_name: str) -> str:
    """Return the label under which a set is drawn. Sets of the same origin have the same label."""
    for suffix in ("-published", "-code", "-conv"):
        set_name = set_name.removesuffix(suffix)
    return set_name


def gap_figure(known: Known) -> Any:
    """Draw the gaps in two panels, for the sets of papers and for the other sets.

    Instances with gap 0 are on the lowest line.
    """
    points: dict[str, tuple[list[int], list[float]]] = {}
    for entry in known.library:
        sizes, gaps = points.setdefault(series(entry.set), ([], []))
        record = known.records.get(entry.name)
        if record is not None:
            sizes.append(entry.n)
            gaps.append(100 * record.gap)
    axes = style.new_axes(7.6, 3.8, columns=2, sharey=True)
    for place, ax in enumerate(axes):
        shown = [name for name in points if (name in FIRST_PANEL) == (place == 0)]
        for number, name in enumerate(shown):
            ax.plot(
                *points[name],
                linestyle="none",
                marker=style.LINE_MARKERS[number],
                color=style.LINE_COLOURS[number],
                markersize=4,
                alpha=0.7,
                label=name,
            )
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=LINEAR, linscale=0.5)
        ax.set_xlim(2.5, 2500)
        ax.set_ylim(-LINEAR / 4, 100)
        ax.set_xticks([3, 10, 30, 100, 300, 1000])
        ax.set_yticks([0, 0.1, 1, 10, 100])
        ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        title = "instances of the papers" if place == 0 else "others"
        style.dress(ax, title, "requests", "" if place else "gap, %")
        ax.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        ax.set_axisbelow(True)
        below = {"bbox_to_anchor": (0.5, -0.16), "ncols": 4, "columnspacing": 1.0}
        style.legend(ax, loc="upper center", fontsize=7, handletextpad=0.3, **below)
    return axes[0].figure
