"""Interface of a router: what it sees of the replicas, its decisions, and its registration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, ClassVar

from instances.registry import Registry
from instances.validation import as_number

from .policy import Named, RegisteredClass, Setup, VisibleRequest, registers


class RouterError(RuntimeError):
    """A router raised an error, or did not choose a replica.

    The message names the router and the request.
    """


class ReplicaView:
    """A replica (one machine of a fleet) as a router sees it, read-only.

    A router sees the state in which a replica was ``Router.delay`` ago. This state includes the
    rounds that ended by then. It does not include decisions that the replica made at exactly that
    time. Requests that the router sent to the replica are included at once.

    Attributes
    ----------
    index : int
        Number of the replica, from 0.
    waiting, running : int
        Requests in its queue, including those just sent, and requests in its batch.
    tokens : int
        KV tokens stored by its batch.
    waiting_tokens : int
        Prompt tokens of the waiting requests, and output tokens kept after preemptions.
    sent : int
        Requests sent to it since the run began.
    work : int
        Prompt tokens and predicted output tokens of the unfinished requests sent to it.
    unfinished : Collection[VisibleRequest]
        Unfinished requests sent to it, in order of sending.
    """

    index: int
    waiting: int
    running: int
    tokens: int
    waiting_tokens: int
    sent: int
    work: int
    unfinished: Collection[VisibleRequest]

    def __init__(self, replica: Any) -> None:
        self._replica = replica

    def __repr__(self) -> str:
        counts = f"waiting={self.waiting}, running={self.running}, sent={self.sent}"
        return f"ReplicaView({self.index}, {counts})"


for _name in ReplicaView.__annotations__:
    setattr(ReplicaView, _name, property(attrgetter(f"_replica.{_name}")))


class Router(Named):
    """Base class of routers. A router sends each request, when it arrives, to one of the replicas.

    The request never moves to another replica.

    `reset` is called once, then `route` for each request in order of arrival.

    Parameters
    ----------
    delay : float, default 0.1
        Age of the router's knowledge of the replicas, in seconds, or in rounds in the round model.

    Attributes
    ----------
    name : ClassVar[str]
        The registered name, set by `register_router`; the class's name otherwise.
    randomized : ClassVar[bool]
        Whether the router draws from `Setup.rng`; if False, a draw is an error.
    looks : ClassVar[bool]
        Whether the router uses the state of the replicas. If False, it may read only ``index`` and
        ``sent`` of a `ReplicaView`, and all requests are routed before the first one is served.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A delay that is not a number >= 0.
    """

    looks: ClassVar[bool] = True

    def __init__(self, delay: float = 0.1) -> None:
        self.delay = as_number(delay, "router", "delay", minimum=0)

    def reset(self, setup: Setup) -> None:
        """Clear the state of earlier runs; ``setup.replicas`` is the number of replicas."""

    @abstractmethod
    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of the replica that is to serve a request."""


ROUTERS: Registry[Callable[..., Router]] = Registry("router")


def register_router(name: str) -> Callable[[RegisteredClass], RegisteredClass]:
    """Return a class decorator that registers a router for ``make_router(name, **params)``.

    Raises
    ------
    ValueError
        A class of another module has the name.
    """
    return registers(ROUTERS, name)


def router_names() -> list[str]:
    """Return the registered router names, sorted."""
    return ROUTERS.names()
