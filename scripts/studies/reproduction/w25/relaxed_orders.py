"""Relaxation of an instance, shared by both policies that order by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from instances import Instance
from online.policy_interface.policy import Policy
from online.policy_interface.specs import make_policy

if TYPE_CHECKING:
    from hindsight import Relaxation

Method = Literal["auto", "lp", "lagrangian"]
NAMES = ("sorted-lp", "lp-swap")


class KnownRelaxation:
    """Hands the relaxation of one instance to the policies that ask for it.

    Everything arrives at once, so a policy asks once, for the instance itself.

    Parameters
    ----------
    scale : int, default 1
        Lengths (rounded up) and M (rounded down) are divided by it first: far quicker, and a
        coarser order.
    method : Method, default "auto"
        Of `hindsight.relax`.

    Attributes
    ----------
    instance : Instance
        Whose requests are ordered.
    relaxation : Relaxation
        Solved with one thread, so that processes side by side do not share cores.
    """

    def __init__(self, instance: Instance, scale: int = 1, method: Method = "auto") -> None:
        # Imported here: the package works without a solver up to this point.
        import hindsight

        self.instance = instance
        coarse = Instance.from_arrays(
            -(-instance.prompt_lengths // scale),
            -(-instance.output_lengths // scale),
            memory_limit=instance.memory_limit // scale,
        )
        self.relaxation: Relaxation = hindsight.relax(coarse, method=method, threads=1)

    def __call__(self, instance: Instance) -> Relaxation:
        """The relaxation known, if it is of the requests asked for."""
        ours = self.instance
        same = (
            len(instance) == len(ours)
            and (instance.prompt_lengths == ours.prompt_lengths).all()
            and (instance.output_lengths == ours.output_lengths).all()
        )
        if not same:
            raise ValueError("asked for the relaxation of other requests")
        return self.relaxation

    def policy(self, name: str) -> Policy:
        """``"sorted-lp"`` or ``"lp-swap"`` on this relaxation."""
        return make_policy(name, relaxation=self)
