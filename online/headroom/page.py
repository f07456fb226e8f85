"""The answer as one self-contained page: the tables of the command, and pictures beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from html import escape
from typing import NamedTuple

from instances import charts
from instances.charts import SIGN, Axis, Plot, element
from online.report.self_contained import folded, page_table, self_contained_page
from online.trials.intervals import Interval, rounded

from .answer import LARGE_DIFFERENCE, CurvePoint, Headroom
from .cells import per_cent, seconds, told
from .fleet_tables import REPLICAS
from .on_time import OnTimePoint, share
from .on_time_tables import CURVES, compared, on_time_curves
from .tables import LOAD, MEMORY, fields, notes, rivals_of, sentences, shown, tables
from .waiting import OverTime

COLOURS = (charts.RED, charts.BLUE, charts.GREEN, charts.BROWN)
BEST, BEST_THERE = charts.PALE_BLUE, charts.GREEN
"""Colours of the area in which the best possible lies, and of its interval at a point."""

LINE_COLOURS = (charts.RED, charts.BLUE, charts.BROWN)
"""Of lines beside such intervals."""

LOAD_AXIS = "machine seconds asked for in a second"

DASHES = "2 3"

WIDE = 4.0
"""The largest of all means beside the least, from where on a linear axis would merge the small."""


def headroom_page(found: Headroom, facts: dict[str, str], title: str) -> str:
    """Write a page with the answer as a heading, and the words and figures of the command.

    Parameters
    ----------
    found : Headroom
        The answer.
    facts : dict[str, str]
        Facts about the log by name.
    title : str
        Title of the page.
    """
    best = "Mean latency of the policies and the best possible"
    loads = [one for one in found.load_curve if one.load is not None]
    pictures = {
        "policies": _policies_picture(found) if found.completed else "",
        "stretches": _over_time_picture(found),
        "memory": _curve_picture("memory", found.memory_curve, f"{best} {MEMORY.lower()}"),
        "load": _curve_picture("load", loads, f"{best} {LOAD.lower()}"),
        "replicas": _curve_picture("replicas", found.replica_curve, f"{best} {REPLICAS.lower()}"),
    }
    for name, points in on_time_curves(found).items():
        pictures[name] = _on_time_picture(name, found, points)
    sections = [
        folded(table.title, pictures.get(name, ""), page_table(table))
        for name, table in tables(found).items()
    ]
    rows = "\n".join(
        f'<tr><th class="text" scope="row">{escape(name)}</th><td class="text long">'
        f"{escape(value)}</td></tr>"
        for name, value in fields(found, facts).items()
    )
    inputs = f'<div class="scroll"><table class="plain" id="facts">{rows}</table></div>'
    sections.append(folded("The requests and the machine", inputs))
    sections.append(folded("What the figures are", *(_said("p", note) for note in notes(found))))
    said = "\n".join(_said("li", one) for one in sentences(found))
    said = element("ul", said, id="answer")
    heading = headline(found).replace(" %", "\N{NO-BREAK SPACE}%")
    return self_contained_page(title, heading, bars(found) + said, "".join(sections))


def _said(name: str, text: str) -> str:
    return element(name, escape(text))


def headline(found: Headroom) -> str:
    """Answer in one sentence: what the best scheduler could have saved."""
    best = "the best router and schedulers" if found.routers else "the best scheduler"
    own = found.on_time_here
    if found.contradicts or (own is not None and own.contradicts):
        return "The batch time or the memory limit does not fit this log"
    if own is not None and (found.baseline, 0.0) in own.kept:
        has = f"{per_cent(share(own.kept[found.baseline, 0.0]))} % of the requests are on time"
        return f"{has}; {best} could have {_span(per_cent(own.attainable))} %"
    if found.saving is None:
        return "No answer yet: today's latency or the best possible is not known"
    saved = per_cent(found.saving.share)
    if found.saving.is_negligible:
        saved = f"at most {saved.rpartition(', ')[2]}"
    said = f"{best} could have saved {_span(saved)} % of the mean latency"
    off = found.difference or Fraction(0)
    if abs(off) <= LARGE_DIFFERENCE:
        return said[0].upper() + said[1:]
    side = "above" if off > 0 else "below"
    return f"Simulated latency is {rounded(100 * abs(off), 1)} % {side} the log's; {said} simulated"


def _span(interval: str) -> str:
    """Write an interval without brackets."""
    low, _, high = interval.replace("[", "").replace("]", "").partition(", ")
    if low == "?":
        return f"at most {high}"
    if high.startswith("?"):
        return f"at least {low}{high[1:]}"
    return f"{low} to {high}" if high else low


def bars(found: Headroom) -> str:
    """Draw what is there today beside the best policies simulated and the best possible."""
    told = {error: "predicted" if error else "exact" for error in (0.0, found.error)}
    own, drawn = found.on_time_here, []
    if own is not None:
        name = found.baseline
        kept_today = [own.kept[name, 0.0]] if (name, 0.0) in own.kept else []
        rows = [_Bar(_today(name), share(one), COLOURS[0]) for one in kept_today]
        for error, lengths in told.items():
            kept = {run.policy: own.kept.get((run.policy, error)) for run in found.runs}
            shares = [(share(one), name) for name, one in kept.items() if one is not None]
            for most, name in sorted(shares)[-1:]:
                rows.append(_Bar(f"{name}, {lengths} lengths", most))
        rows.append(_Bar("best possible", own.attainable, BEST_THERE))
        drawn.append(_bars("Requests on time", rows, Fraction(1)))
    today = [] if found.saving is None else [found.saving.mean_latency]
    rows = [_Bar(_today(found.baseline), mean, COLOURS[0]) for mean in today]
    for error, lengths in told.items():
        for run in rivals_of(found, error)[:1]:
            rows.append(_Bar(f"{run.policy}, {lengths} lengths", run.mean_latency or Fraction(0)))
    for policy, router, blame in found.blames:
        if (policy, router) == (found.baseline, found.routers[0]):
            rows.append(_Bar("best possible with today's router", blame.assigned, BEST_THERE))
    if found.best is not None:
        rows.append(_Bar("best possible", found.best.mean_latency, BEST_THERE))
        drawn.append(_bars("Mean latency", rows))
    return "".join(drawn)


class _Bar(NamedTuple):
    """A figure, or an interval around it, and its name."""

    name: str
    value: Fraction | Interval
    colour: str = COLOURS[1]

    @property
    def interval(self) -> Interval:
        value = self.value
        return value if isinstance(value, Interval) else Interval(value, value)


def _today(name: str) -> str:
    return f"{name}, simulated"


def _bars(title: str, bars: Sequence[_Bar], whole: Fraction | None = None) -> str:
    """Draw seconds, or shares of a whole; a bar is fainter between the ends of an interval."""
    ends = [end for bar in bars for end in (bar.interval.lower, bar.interval.upper) if end]
    most = whole or max(ends, default=Fraction(1))
    drawn = []
    for bar in bars:
        low = bar.interval.lower or Fraction(0)
        high = most if bar.interval.upper is None else bar.interval.upper
        parts = "".join(
            element("i", style=f"width:{float(100 * part / most):.2f}%;background:{bar.colour}")
            for part in (low, high - low)
        )
        figure = f"{seconds(bar.interval)} s" if whole is None else f"{per_cent(bar.interval)} %"
        cells = (_said("span", bar.name), element("span", parts), element("b", _span(figure)))
        drawn.append(element("div", "".join(cells)))
    if any(not bar.interval.is_exact for bar in bars):
        drawn.append(_said("p", "The best possible ends somewhere in the fainter part."))
    return element("h2", title) + element("div", "\n".join(drawn), class_="bars")


def _policies_picture(found: Headroom) -> str:
    """Draw the mean latency of every policy, and the band in which the best possible lies."""
    completed = [(run, run.mean_latency) for run in found.completed]
    means = [(run, float(mean)) for run, mean in completed if mean is not None]
    means.sort(key=lambda one: one[1])
    names = list(dict.fromkeys(run.policy for run, _ in means))
    # Exact lengths first.
    lengths = sorted({told(run.error) for run, _ in means})
    low, high = (None, None) if found.best is None else found.best.mean_latency.ends
    today = [] if found.saving is None else [float(found.saving.mean_latency)]
    figures = [mean for _, mean in means] + [end for end in (low, high) if end]
    x = _latency_axis(figures)
    plot = Plot.of_rows(x, len(names), 20)
    marks, entries = [], []

    def dot(on: Plot, at: float, row: float, kind: str, text: str = "") -> str:
        place = lengths.index(kind)
        shape = "diamond" if place else "circle"
        colour, hollow = COLOURS[place + 1], place > 0
        return on.point(at, row, colour, shape=shape, radius=5, hollow=hollow, text=text)

    for kind in lengths:
        entries.append((dot(SIGN, 0.5, 0.5, kind), f"output lengths {kind}"))
    if high is not None:
        # No lower end is known: no latency is below 0, where a logarithmic axis does not begin.
        marks.append(plot.band((low or x.low, high), BEST))
        entries.append((SIGN.band((0, 1), BEST), "best possible"))
    for mean in today:
        marks.append(plot.rule(mean, COLOURS[0], DASHES))
        sign = SIGN.segment((0, 1), 0.5, COLOURS[0], stroke_dasharray=DASHES)
        entries.append((sign, _today(found.baseline)))
    for run, mean in means:
        kind = told(run.error)
        text = f"{run.policy}\noutput lengths {kind}\nmean latency {mean:.3f} s"
        marks.append(dot(plot, mean, names.index(run.policy) + 0.5, kind, text))
    label = "Mean latency of every policy, and where the best possible lies"
    return _picture("policies", charts.legend(entries), plot.drawn(label, marks, names))


def _latency_axis(figures: Sequence[float]) -> Axis:
    """Make an axis from 0, or a logarithmic one where it would merge the small figures."""
    positive = [one for one in figures if one > 0] or [1.0]
    least, most, title = min(positive), max(positive), "mean latency, s"
    if most > WIDE * least:
        return Axis(least / 1.25, most * 1.25, title, log=True, grid=True)
    return Axis(0, 1.05 * most, title, grid=True)


def _over_time_picture(found: Headroom) -> str:
    """Draw the requests waiting and the memory held over time, of the runs looked into."""
    runs = [(run.policy, run.over_time) for run in shown(found) if run.over_time is not None]
    if not runs:
        return ""
    parts = [each for _, each in runs]
    drawn = _over_time(list(zip(parts, COLOURS, strict=False)))
    return _picture("over-time", _lines([policy for policy, _ in runs]), *drawn)


def _over_time(parts: Sequence[tuple[OverTime, str]]) -> list[str]:
    """Draw queues and memory over time, each in its colour."""
    seconds = parts[0][0].seconds
    last = seconds * max(len(each.queue) for each, _ in parts)
    x = Axis(0, last, "seconds since the first arrival", grid=True)
    most = max(1.0, *(float(each.queue.max()) for each, _ in parts))
    drawn = []
    for label, high in (("requests waiting", 1.05 * most), ("memory held, % of M", 105)):
        plot = Plot(x, Axis(0, high, label, grid=True), 150)
        marks = []
        for each, colour in parts:
            values = each.queue if label == "requests waiting" else 100 * each.memory
            corners = [
                (k * seconds, value)
                for begin, value in enumerate(values.tolist())
                for k in (begin, begin + 1)
            ]
            marks.append(plot.line(corners, colour))
        drawn.append(plot.drawn(f"{label}, over time", marks))
    return drawn


def _curve_picture(name: str, points: Sequence[CurvePoint], label: str) -> str:
    """Draw mean latencies and the best possible where the memory or the load is another."""
    titles = {"memory": "M, tokens", "load": LOAD_AXIS, "replicas": "replicas"}
    field, title = "memory_limit" if name == "memory" else name, titles[name]
    at = {one: float(getattr(one, field) or 0) for one in points}
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for one in points:
        for run in one.runs:
            line = lines.setdefault(run.policy, [])
            if run.mean_latency is not None:
                text = f"mean latency {float(run.mean_latency):.3f} s"
                line.append((at[one], float(run.mean_latency), text))
    known = [
        (at[one], low or 0.0, high, f"mean latency {seconds(one.best.mean_latency)} s")
        for one in points
        if one.best is not None
        for low, high in [one.best.mean_latency.ends]
        if high is not None
    ]
    figures = [mean for line in lines.values() for _, mean, _ in line]
    figures += [end for _, low, high, _ in known for end in (low, high)]
    if not figures or len(points) < 2:
        return ""
    first, last = min(at.values()), max(at.values())
    pad = 0.04 * ((last - first) or last or 1)
    x = Axis(first - pad, last + pad, title, whole=name == "replicas", grid=True)
    plot = Plot(x, _latency_axis(figures), 240)
    return _curve(name, label, plot, known, lines, "best possible")


def _on_time_picture(name: str, found: Headroom, points: Sequence[OnTimePoint]) -> str:
    """Draw who is on time and the attainable where the limits or the load are others."""
    fields = {"levels": "scale", "loads": "faster", "fewest": "replicas"}
    times = (found.load or 0) if name == "loads" else 1
    at = {one: getattr(one, fields[name]) * times for one in points}
    if len(at) < 2:
        return ""
    lines: dict[str, list[tuple[float, float, str]]] = {}
    known = []
    for one, where in at.items():
        for policy, kept in compared(found, one).items():
            line = lines.setdefault(policy, [])
            line.append((where, 100 * float(share(kept)), f"on time {per_cent(share(kept))} %"))
        low, high = (100 * (end or 0) for end in one.attainable.ends)
        known.append((where, low, high, f"on time {per_cent(one.attainable)} %"))
    ends = (0.96 * min(at.values()), max(at.values()) / 0.96)
    titles = {"loads": LOAD_AXIS, "fewest": "replicas"}
    title = titles.get(name, "limits, times those asked for")
    x = Axis(*ends, title, log=name == "levels", whole=name == "fewest", grid=True)
    plot = Plot(x, Axis(0, 105, "on time, %", grid=True), 240)
    label = f"{CURVES[name]}, and the attainable"
    return _curve(name, label, plot, known, lines, "attainable")


def _curve(
    name: str,
    label: str,
    plot: Plot,
    known: Sequence[tuple[float, float, float, str]],
    lines: Mapping[str, Sequence[tuple[float, float, str]]],
    best: str,
) -> str:
    """Draw intervals (x, low, high, words) and lines of points (x, y, words), by name."""

    def text(who: str, words: str, where: float) -> str:
        return f"{who}\n{words}\n{plot.x.title}: {charts.number(where)}"

    marks = [plot.area([one[:3] for one in known], BEST)] if known else []
    for where, low, most, words in known:
        marks.append(plot.upright(where, (low, most), BEST_THERE, text(best, words, where)))
    coloured = list(zip(lines.items(), LINE_COLOURS, strict=False))
    marks += [
        plot.line([one[:2] for one in line], colour) for (_, line), colour in coloured if line
    ]
    for (policy, line), colour in coloured:
        for where, y, words in line:
            marks.append(plot.point(where, y, colour, text=text(policy, words, where)))
    sign = SIGN.band((0, 1), BEST) + SIGN.upright(0.5, (0, 1), BEST_THERE)
    signs = [(sign, f"{best} lies here")] if known else []
    return _picture(name, _lines(list(lines), signs), plot.drawn(label, marks))


def _lines(policies: Sequence[str], before: Sequence[tuple[str, str]] = ()) -> str:
    """Write a legend of lines, one a policy."""
    lines = [
        (SIGN.segment((0, 1), 0.5, colour), policy)
        for policy, colour in zip(policies, LINE_COLOURS, strict=False)
    ]
    return charts.legend([*before, *lines])


def _picture(name: str, *content: str) -> str:
    return element("div", "".join(content), id=f"{name}-picture", class_="picture")
