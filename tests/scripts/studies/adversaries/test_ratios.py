"""Measurements on the papers' constructions, small, against closed forms and solvers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

import hindsight
import online
from instances import ServiceLevel, generate, one_long_and_units
from studies.adversaries.ratios import (
    Construction,
    Measurement,
    growth_of,
    measure,
    measurements,
    paper_constructions,
)
from studies.adversaries.tables import growth_table, plot_growth, ratio_table

NEED_A_SOLVER = {"sorted-lp", "lp-swap"}


def the(generator: str, **parameters: str) -> Construction:
    """The construction of that name whose parameters and policy parameters include these."""
    (found,) = [
        c
        for c in paper_constructions()
        if c.generator == generator
        and parameters.items() <= {**c.parameters, **c.policy_parameters}.items()
    ]
    return found


@pytest.mark.parametrize("policy", sorted(set(online.policy_names()) - NEED_A_SOLVER))
def test_theorem_4_1_against_every_policy(policy: str) -> None:
    """[J25] Theorem 4.1."""
    for memory_limit in (16, 100, 257):
        source = generate("sqrt-n-adversary", memory_limit=memory_limit)
        run = online.simulate(source, policy, level=ServiceLevel(latency=99))
        assert run.status == "completed"
        assert run.adaptive
        assert run.instance is not None
        half = math.ceil(math.sqrt(memory_limit) / 2)
        # The short ones came h rounds before the long one's last start could have freed M.
        begun = int(run.attempts.start_round[run.attempts.request == 0][0])
        if run.evictions == 0:
            assert set(run.instance.arrival_times.tolist()) == {0, begun + memory_limit - half}
        optimum = one_long_and_units(run.instance)
        ratio = run.total_latency / optimum.total_latency
        assert ratio >= math.sqrt(memory_limit) / 28


def test_the_closed_form_of_the_adversary_against_mc_sf() -> None:
    # b = 0. In round M - j (j = h - 1, .., 1) the long request leaves j - 1 tokens: (j - 1) // 2
    # short ones run; the rest completes in round M. M = 400: h = 10.
    memory_limit, half = 400, 10
    run = online.simulate(generate("sqrt-n-adversary", memory_limit=memory_limit), "mc-sf")
    left, total = memory_limit // 2, memory_limit - 1
    for waited, j in enumerate(range(half - 1, 0, -1), start=1):
        started = (j - 1) // 2
        total += waited * started
        left -= started
    assert run.total_latency == total + left * half


def test_a_policy_that_never_starts_is_sent_nothing_more() -> None:
    class Idle(online.Policy):
        def arrive(self, requests: object, state: object) -> None:
            pass

        def decide(self, state: object) -> online.Decision:
            return online.Decision()

    run = online.simulate(generate("sqrt-n-adversary", memory_limit=16), Idle())
    assert run.status == "stalled"
    assert len(run.start_rounds) == 1


@pytest.mark.parametrize("memory_limit", [16, 30])
def test_the_reference_of_the_adversary_is_the_optimum(memory_limit: int) -> None:
    row = measure(the("sqrt-n-adversary"), memory_limit)
    source = generate("sqrt-n-adversary", memory_limit=memory_limit)
    run = online.simulate(source, "mc-sf")
    assert run.instance is not None
    optimum = hindsight.solve(run.instance, threads=1, method="mip", time_limit=60)
    assert optimum.status == "optimal"
    assert row.reference_upper == optimum.upper_bound
    assert row.ratio_lower == row.ratio_upper == run.total_latency / optimum.upper_bound


def test_the_printed_trap_is_bounded_and_the_steep_one_is_not() -> None:
    """[W25] Theorem 1."""

    # The proof's own sums at M = R^2, with exact counts: their ratio tends to 4/3, not to infinity.
    def policy_first(root: int) -> Fraction:
        limit = root**2
        second = Fraction(2 * limit, 3) * sum(range(1, 3 * root + 1))
        first = root * sum(range(1, root + 1))
        crossed = limit * limit * root // root
        delayed = Fraction(6 * limit * limit * root, limit)
        return (first + second + crossed) / (first + second + delayed)

    assert policy_first(1000) < Fraction(4, 3) < policy_first(1000) * Fraction(101, 100)
    printed = [measure(the("mc-sf-trap", sizes="printed"), m) for m in (144, 576)]
    for row in printed:
        assert row.ratio_upper is not None
        assert row.ratio_lower == pytest.approx(
            float(policy_first(math.isqrt(row.memory_limit))), rel=0.02
        )
        assert row.ratio_upper < 1.6
        assert row.claim_holds is False
    steep = [measure(the("mc-sf-trap", sizes="steep"), m) for m in (144, 576)]
    assert steep[1].ratio_lower / steep[0].ratio_lower == pytest.approx(2, rel=0.02)


def test_the_other_trap() -> None:
    """[W25] Theorem EC.1."""
    printed = [measure(the("mc-sf-total-trap", sizes="printed"), m) for m in (144, 576)]
    for row in printed:
        assert row.ratio_upper is not None
        assert row.ratio_upper < 3
        assert row.claim_holds is False
    steep = [measure(the("mc-sf-total-trap", sizes="steep"), m) for m in (144, 576)]
    assert steep[1].ratio_lower / steep[0].ratio_lower == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("generator", "sizes", "exponent"),
    [
        ("sqrt-n-adversary", "", 0.5),
        ("mc-sf-trap", "steep", 0.5),
        ("mc-sf-total-trap", "steep", 0.5),
        ("mc-sf-total-trap", "balanced", 0.25),
    ],
)
def test_exponents(generator: str, sizes: str, exponent: float) -> None:
    construction = the(generator, **({"sizes": sizes} if sizes else {}))
    sizes_measured = (68, 100, 150, 220, 330, 470, 680, 1000)
    if generator == "sqrt-n-adversary":
        sizes_measured = (470, 680, 1000, 1500, 2200, 3300, 4700, 6800)
    (growth,) = growth_of(list(measurements([construction], sizes_measured)))
    assert growth.corrected is not None
    assert growth.corrected.contains(exponent)
    assert construction.claimed_exponent == exponent


def test_identical_requests_and_random_orders_stay_below_their_bounds() -> None:
    """[J25] Theorem 4.3; [C25] Theorem 8.6, Algorithm 4."""
    for generator in ("identical-requests", "two-point-worst-case"):
        row = measure(the(generator), 64, seeds=3)
        assert row.claim_holds is True
        assert row.ratio_lower >= 1
    assert row.seeds == 3
    assert row.standard_error > 0


def test_a_max_meets_the_proofs_expression_and_not_the_theorem() -> None:
    """[C25] Theorem 3.4."""
    row = measure(the("a-max-trap", fit="peaks"), 256, seeds=4)
    assert row.claim == 6
    assert row.claim_holds is False
    # (1/alpha)(t + alpha)(t + 1)/(t^2 + 2 alpha t + 1) at alpha = 1/4, t = 1/2.
    assert row.ratio_lower == pytest.approx(3, rel=0.05)


def test_claims_are_judged_by_the_right_end_of_the_interval() -> None:
    base = the("mc-sf-trap", sizes="printed")
    row = Measurement(replace(base, claim=lambda m: 2.0), 16, 1, False, 1, 30.0, 10.0, 3.0, 4.0, 0)
    assert row.claim_holds is True
    assert replace(row, ratio_lower=1.5).claim_holds is None
    assert replace(row, ratio_lower=1.5, ratio_upper=None).claim_holds is None
    assert replace(row, ratio_lower=1.5, ratio_upper=1.9).claim_holds is False
    most = replace(base, claim=lambda m: 2.0, is_upper_claim=True)
    assert replace(row, construction=most).claim_holds is False
    assert replace(row, construction=most, ratio_lower=1.5).claim_holds is None
    assert replace(row, construction=most, ratio_lower=1.5, ratio_upper=2.0).claim_holds is True
    assert replace(row, construction=replace(base, claim=None)).claim_holds is None


def test_intervals_and_claims_are_rounded_outwards() -> None:
    base = the("mc-sf-trap", sizes="printed")
    wide = Measurement(
        replace(base, claim=lambda m: 1.2347), 16, 1, False, 1, 30.0, 24.4, 1.2347, 1.2351, 0
    )
    exact = replace(wide, ratio_upper=1.2347)
    most = replace(wide, construction=replace(wide.construction, is_upper_claim=True))
    shown = ratio_table([wide, replace(wide, ratio_upper=None), exact, most]).rows
    assert [row[8] for row in shown[:3]] == ["[1.234, 1.236]", "[1.234, ?]", "1.235"]
    assert [row[9] for row in shown] == [">= 1.234"] * 3 + ["<= 1.235"]
    # An upper bound of the optimum.
    assert shown[0][7] == "25"


def test_no_theorem_is_claimed_against_coin_tosses() -> None:
    found = {c.policy: c for c in paper_constructions(["mc-sf", "a-random"])[:2]}
    tossed = measure(found["a-random"], 64, seeds=2)
    assert tossed.adaptive
    assert tossed.claim is tossed.claim_holds is None
    assert measure(found["mc-sf"], 64).claim == 8 / 28


def test_tables_and_figure() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    construction = the("sqrt-n-adversary")
    rows = [measure(construction, m) for m in (16, 36, 64, 100)]
    table = ratio_table(rows)
    assert [row[3] for row in table.rows] == ["adaptive"] * 4
    assert [row[9] for row in table.rows][:2] == [">= 0.142", ">= 0.214"]
    assert "sqrt-n-adversary" in growth_table(growth_of(rows)).to_markdown()
    assert growth_table(growth_of(rows[:2])).rows[0][5] == ""
    figure, axes = pyplot.subplots()
    plot_growth(axes, rows)
    ratios, claims = axes.get_lines()
    assert list(ratios.get_xdata()) == [16, 36, 64, 100]
    assert list(claims.get_ydata()) == pytest.approx([m**0.5 / 28 for m in (16, 36, 64, 100)])
    pyplot.close(figure)
