"""The conditions of an answer, in the same words wherever an optimum or a bound is printed."""

from fractions import Fraction


def conditions(in_seconds: bool, *, preempts: bool, reused: Fraction | None = None) -> str:
    """Write for which machine, reuse of prompts and schedulers an optimum or a bound holds.

    Parameters
    ----------
    in_seconds : bool
        Whether a round lasts as a batch time says. False counts rounds.
    preempts : bool
        Whether the schedulers compared may stop a request and keep its tokens. In seconds all may.
    reused : Fraction or None, default None
        Share of the prompt tokens that a prefix cache could supply, if the answer counts it.
    """
    machine = "this batch time and M" if in_seconds else "rounds of one token, this M"
    if preempts and not in_seconds:
        machine += "; preempted requests free their memory, keep their tokens and resume at no cost"
    cache = "no prefix cache"
    if reused:
        cache = f"a prefix cache could supply {float(100 * reused):.1f} %"
    who = "every scheduler" if preempts or in_seconds else "every scheduler without preemption"
    may = "pauses, preempts or knows" if in_seconds else "knows"
    return f"{machine}; {cache}; {who}, even if it {may} the future"
