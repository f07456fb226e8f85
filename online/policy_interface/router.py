"""Interface of a router: what it sees of the replicas, what it decides, and its registration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, ClassVar

from instances.registry import Registry
from instances.validation import as_number

from .policy import Named, RegisteredClass, Setup, VisibleRequest, registers


class RouterError(RuntimeError):
    """A router failed, or chose no replica; the message names router and request."""


class ReplicaView:
    """A replica as a router sees it, read-only.

    What the replica did is known up to ``Router.delay`` before now, with the rounds that ended by
    then and without what the replica decides at that very time. What the router sent is known at
    once.

    Attributes
    ----------
    index : int
        The replica, from 0.
    waiting, running : int
        Requests in its queue, those on their way included, and in its batch.
    tokens : int
        KV tokens that its batch has stored.
    waiting_tokens : int
        Prompt tokens of the requests waiting, and output tokens that they kept.
    sent : int
        Requests ever sent there.
    work : int
        Prompt tokens and predicted output tokens of what was sent there and is not finished.
    unfinished : Collection[VisibleRequest]
        What was sent there and is not finished, in order of sending.
    volumes : Sequence[int]
        `VisibleRequest.volume` of each of those, sorted; not to be changed.
    """

    index: int
    waiting: int
    running: int
    tokens: int
    waiting_tokens: int
    sent: int
    work: int
    unfinished: Collection[VisibleRequest]
    volumes: Sequence[int]

    def __init__(self, replica: Any) -> None:
        self._replica = replica

    def __repr__(self) -> str:
        counts = f"waiting={self.waiting}, running={self.running}, sent={self.sent}"
        return f"ReplicaView({self.index}, {counts})"


for _name in ReplicaView.__annotations__:
    setattr(ReplicaView, _name, property(attrgetter(f"_replica.{_name}")))


class Router(Named):
    """Sends each request to a replica when it arrives; there it stays.

    `reset` is called once, then `route` for each request in order of arrival.

    Parameters
    ----------
    delay : float, default 0.1
        Age of what is known of the replicas, in seconds, in the round model in rounds.

    Attributes
    ----------
    name : ClassVar[str]
        The registered name, set by `register_router`; the class's name otherwise.
    randomized : ClassVar[bool]
        Whether the router draws from `Setup.rng`, which it may not otherwise.
    looks : ClassVar[bool]
        Whether it looks at what replicas do. If not, it sees only ``index``, ``sent`` and what
        follows from that alone, and all requests are routed before the first is served.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A delay that is no number >= 0.
    """

    looks: ClassVar[bool] = True

    def __init__(self, delay: float = 0.1) -> None:
        self.delay = as_number(delay, "router", "delay", minimum=0)

    def reset(self, setup: Setup) -> None:
        """Forget everything and prepare for a run; ``setup.replicas`` is their number."""

    @abstractmethod
    def route(self, request: VisibleRequest, replicas: Sequence[ReplicaView]) -> int:
        """Return the index of the replica that is to serve a request."""


ROUTERS: Registry[Callable[..., Router]] = Registry("router")


def register_router(name: str) -> Callable[[RegisteredClass], RegisteredClass]:
    """Class decorator: register the router by name, for ``make_router(name, **params)``.

    Raises
    ------
    ValueError
        Another class has the name.
    """
    return registers(ROUTERS, name)


def router_names() -> list[str]:
    """Return the registered router names, sorted."""
    return ROUTERS.names()
