"""The conditions of an answer, in the same words wherever an optimum or a bound is printed."""


def conditions(in_seconds: bool, *, preempts: bool, reused: str = "") -> str:
    """Write for which machine, reuse of prompts and schedulers an optimum or a bound holds.

    Parameters
    ----------
    in_seconds : bool
        Whether a round lasts as a batch time says. False counts rounds.
    preempts : bool
        Whether the schedulers compared may stop a request and keep its tokens. In seconds all may.
    reused : str, default ""
        The reuse of prompts, if the answer counts any.
    """
    machine = "this batch time and M" if in_seconds else "rounds of one token, this M"
    who = "every scheduler" if preempts or in_seconds else "every scheduler without preemption"
    return f"{machine}; {reused or 'no prefix cache'}; {who}, even if it knows the future"
