"""Several replicas and their routers in words, in tables cell by cell, and as JSON."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from online.tables import Table, table_of
from online.trials.intervals import Interval, rounded_down, rounded_up

from .answer import LOGGED, Headroom
from .cells import DECIMALS, seconds
from .on_time_tables import within

REPLICAS = "With another number of replicas"
"""Title of the curve."""

LOSSES = (
    "The router loses what no scheduler wins back while every request stays on its replica, the "
    "best mean latency with this routing less the best possible. The schedulers lose the mean "
    "latency less the best with this routing, which better schedulers win back without another "
    "router. The two add up to what could be saved; each is an interval, rounded outwards."
)


def behind(found: Headroom) -> str:
    """Say behind which router and on how many replicas, for several."""
    if not found.routers:
        return ""
    router = found.routers[0]
    routed = "routed as in the log" if router == LOGGED else f"behind the router {router}"
    return f" {routed} on {found.replicas} replicas"


def blame_sentences(found: Headroom) -> list[str]:
    """Tell what the router and the schedulers lose, and which router is the best."""
    todays = [
        blame
        for policy, router, blame in found.blames
        if (policy, router) == (found.baseline, found.routers[0])
    ]
    if not todays:
        return []
    blame = todays[0]
    whose = f"Of the {seconds(blame.latency)} s simulated, "
    router = "no scheduler wins that back while requests stay where it sent them"
    schedulers = "so much the best ones save while requests stay where they are"
    losses = (blame.router_loss, blame.scheduler_loss)
    if not any(float(_least(one)) or one.upper is None or one.upper <= 0 for one in losses):
        # Two open intervals side by side invite to add them up.
        ends = [rounded_up(one.upper or 0, DECIMALS) for one in losses]
        both = (
            f"{whose}the router loses between 0 and {ends[0]} s and the schedulers on the replicas "
            f"between 0 and {ends[1]} s: it is not known which of them loses what is lost."
        )
        return [both, *_best_router(found)]
    return [
        *_loss(f"{whose}the router loses", blame.router_loss, router),
        *_loss("The schedulers on the replicas lose", blame.scheduler_loss, schedulers),
        *_best_router(found),
    ]


def _loss(loses: str, loss: Interval, meaning: str) -> list[str]:
    """Tell how much is lost."""
    if loss.upper is None:
        return []
    if loss.upper <= 0:
        return [f"{loses} nothing."]
    most = f"at most {rounded_up(loss.upper, DECIMALS)} s"
    if not float(_least(loss)):
        return [f"{loses} {most}, and possibly nothing."]
    return [f"{loses} at least {_least(loss)} s and {most}: {meaning}."]


def _best_router(found: Headroom) -> list[str]:
    """Tell behind which router the baseline is fastest."""
    runs = [run for run in found.routed if run.policy == found.baseline and run.mean_latency]
    runs.sort(key=lambda run: run.mean_latency or 0)
    if len(runs) < 2:
        return []
    best = f"{runs[0].router} has the least mean latency: {seconds(runs[0].mean_latency)} s"
    if runs[0].router == found.routers[0]:
        best = f"today's has the least mean latency; the next has {seconds(runs[1].mean_latency)} s"
    return [f"Of the {len(runs)} routers tried with {found.baseline}, {best}."]


def capacity_sentences(found: Headroom) -> list[str]:
    """Tell how few replicas can meet the service level."""
    known = found.capacity
    if known is None or found.level is None:
        return []
    asked = f"{100 * known.share:g} % on time within {within(found.level)}"
    if known.lower_bound is None:
        return [f"No number of replicas has {asked}: too many requests are late even alone."]
    fewer = f"fewer than {known.lower_bound} replicas are not enough behind any router; "
    enough = "replica is" if known.upper_bound == 1 else "replicas are"
    reached = f"{known.upper_bound} {enough} enough, with a schedule that is known"
    if known.upper_bound is None:
        reached = "no number is known to be enough"
    return [f"For {asked}, {fewer if known.lower_bound > 1 else ''}{reached}."]


def fleet_tables(found: Headroom) -> dict[str, Table]:
    """Make the tables of routers; none on one machine."""
    if not found.routers:
        return {}
    return {"routers": _routers(found)}


def _routers(found: Headroom) -> Table:
    """Show what each router and policy loses, the fastest first."""
    rows = []
    for policy, router, blame in sorted(found.blames, key=lambda one: one[2].latency):
        rows.append(
            {
                "router": router,
                "policy": policy,
                "mean latency, s": seconds(blame.latency),
                "router loses, s": seconds(blame.router_loss),
                "schedulers lose, s": seconds(blame.scheduler_loss),
                "could be saved, s": seconds(blame.saving),
            }
        )
    main = ["router", "policy", "router loses, s", "schedulers lose, s", "mean latency, s"]
    main += ["could be saved, s"]
    return table_of("What routers and schedulers lose", rows, ["router", "policy"], main)


def fleet_record(found: Headroom) -> dict[str, Any]:
    """Write the same as JSON, in seconds; nothing on one machine."""
    if not found.routers:
        return {}
    losses = [
        {
            "router": router,
            "policy": policy,
            "mean_latency": float(blame.latency),
            "best_with_routing": list(blame.assigned.ends),
            "lost_by_router": list(blame.router_loss.ends),
            "lost_by_schedulers": list(blame.scheduler_loss.ends),
            "could_be_saved": list(blame.saving.ends),
        }
        for policy, router, blame in found.blames
    ]
    record: dict[str, Any] = {"replicas": found.replicas, "routers": list(found.routers)}
    if found.capacity is not None:
        known = found.capacity
        fewest = [known.lower_bound, known.upper_bound]
        record["fewest_replicas"] = {"share": known.share, "interval": fewest}
    return {"fleet": {**record, "losses": losses}}


def _least(interval: Interval) -> str:
    return rounded_down(interval.lower or Fraction(0), DECIMALS)
