"""Checking a certificate: a schedule and a proof of a lower bound, with no solver in sight.

The modules beside this one re-implement what they need from the definitions, and import nothing of
the package but `instances` (for the digest): what a certificate claims of the solver must not rest
on the solver's code, so whatever stands here and there too stands twice on purpose.

* `hindsight.certificates.format`: the file as JSON, and what its parts must hold;
* `hindsight.certificates.problem`: the instance, and what its schedule costs;
* `hindsight.certificates.proofs`: the kinds of proof, and why each of them proves its bound;
* `hindsight.certificates.charges`: what requests pay under the prices of a proof;
* `hindsight.certificates.replay`: the search that a proof may ask for;
* `hindsight.certificates.limits`: what all of that may cost.

All arithmetic is on integers: numpy's int64 where a Python integer has shown first that nothing can
overflow. The format is described in docs/certificates.md. A claim that was checked and does not
hold is a `CertificateError`; a document that is malformed, or takes too much, is one of its
subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .format import (
    FORMAT,
    VERSION,
    CertificateError,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    whole,
)
from .problem import read_instance, total_latency
from .proofs import Proof, SearchFailedError


@dataclass(frozen=True)
class Verdict:
    """What a certificate proves.

    Attributes
    ----------
    lower_bound : int
        Verified: no feasible schedule has a smaller total latency.
    upper_bound : int
        Total latency of the certificate's schedule, which is feasible.
    kind : str
        Of the proof: ``"memory-prices"``, ``"state-prices"``, ``"state-search"`` or
        ``"window-tree"``.
    requests : int
        Number of requests.
    tables, price_sets, leaves : int
        Of the proof; 0 where it has none. Leaves are those of a window tree, or the partial
        schedules of a search.
    digest : str
        Of the instance.
    """

    lower_bound: int
    upper_bound: int
    kind: str
    requests: int
    tables: int
    price_sets: int
    leaves: int
    digest: str

    @property
    def is_optimal(self) -> bool:
        """Whether the bounds meet: the schedule is an optimum."""
        return self.lower_bound == self.upper_bound


def check_certificate(document: Mapping[str, Any]) -> Verdict:
    """Check a certificate completely.

    Parameters
    ----------
    document : Mapping[str, Any]
        As from `read_certificate`.

    Returns
    -------
    Verdict
        The verdict. Its lower bound is the certificate's claim, which the proof reaches.

    Raises
    ------
    CertificateError
        The schedule is infeasible, or something is claimed but not proved.
    MalformedCertificateError
        Anything is missing or malformed.
    CertificateTooLargeError
        To check it takes more than this checker does.
    """
    keys = ("format", "version", "instance", "start_times", "upper_bound", "lower_bound", "proof")
    keys_of(document, keys, "certificate")
    if document["format"] != FORMAT or whole(document["version"], "version") != VERSION:
        raise MalformedCertificateError("format or version is not that of this checker")
    instance = read_instance(document["instance"])
    upper = total_latency(instance, document["start_times"])
    if whole(document["upper_bound"], "upper_bound") != upper:
        raise CertificateError(
            f"upper_bound is {document['upper_bound']}, but the schedule's total latency is {upper}"
        )
    claim = whole(document["lower_bound"], "lower_bound")
    proof = Proof(instance, document["proof"])
    proved = proof.bound()
    if proved < claim:
        raise CertificateError(
            f"lower_bound is {claim}, but {proof.weakest} proves no more than {proved}"
        )
    if claim > upper:
        raise CertificateError(f"lower_bound {claim} exceeds the feasible schedule's {upper}")
    return Verdict(
        claim,
        upper,
        proof.kind,
        len(instance.rows),
        len(proof.tables),
        proof.price_sets,
        proof.leaves,
        instance.digest,
    )


def proved_bound(document: Mapping[str, Any], should_stop: Callable[[], bool] | None = None) -> int:
    """The lower bound that the instance and proof of a document give, whatever it claims.

    ``should_stop`` is polled; a proof that it breaks off counts as too large.

    Raises
    ------
    CertificateError
        The instance or the proof is malformed, incomplete or too large.
    """
    proof = Proof(read_instance(document["instance"]), document["proof"])
    proof.should_stop = should_stop
    return proof.bound()


def states_needed(
    document: Mapping[str, Any], should_stop: Callable[[], bool] | None = None
) -> int | None:
    """Partial schedules that the search of a ``"state-search"`` proof keeps.

    None if that is more than its ``kept`` or than this checker does, if it was told to stop, or if
    the search fails.

    Raises
    ------
    CertificateError
        The instance or the prices are malformed.
    """
    proof = Proof(read_instance(document["instance"]), document["proof"])
    proof.should_stop = should_stop
    try:
        proof.bound()
    except (SearchFailedError, CertificateTooLargeError):
        return None
    return proof.leaves
