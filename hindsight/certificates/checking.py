"""Check of a certificate, that is a schedule and a proof of a lower bound, without any solver.

The modules of the checker follow from the definitions alone. They import nothing from the solver,
only `instances` (for the digest): a check of the claims of the solver must not depend on code of
the solver, so code that exists in both is duplicated on purpose.

* `hindsight.certificates.format`: the JSON file and the form of its parts;
* `hindsight.certificates.problem`: the instance, and the total latency of its schedule;
* `hindsight.certificates.proofs`: the base class of all proofs; the module of each kind of proof
  explains why the proof implies its bound;
* `hindsight.certificates.replay`: the search that a proof may require;
* `hindsight.certificates.path_layers`, `hindsight.certificates.path_states`: the graphs of paths;
* `hindsight.certificates.seconds_proof`: the exception, for bounds in seconds: it evaluates prices
  with the code of the solver, in floats rounded outward;
* `hindsight.certificates.limits`: limits on the time and memory of a check.

All arithmetic is on integers. Arrays have 64 or 32 bits, and only where Python integers have shown
first that nothing can overflow. The format is described in docs/certificates.md. A claim that is
false or not proved raises `CertificateError`; a malformed document, or one that is too expensive to
check, raises a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .format import (
    FORMAT,
    VERSION,
    CertificateError,
    MalformedCertificateError,
    Verdict,
    keys_of,
    shown,
    whole,
)
from .path_proof import PathProof
from .price_proofs import MemoryProof, PreemptiveMemoryProof, PreemptiveProof
from .problem import Rows, read_instance, total_latency
from .proofs import Proof
from .replay import SearchProof
from .state_proofs import StateProof

KINDS: dict[str, type[Proof]] = {
    "memory-prices": MemoryProof,
    "state-prices": StateProof,
    "state-search": SearchProof,
    "path-search": PathProof,
    "preemptive-memory-prices": PreemptiveMemoryProof,
    "preemptive-prices": PreemptiveProof,
}


def check_certificate(document: Mapping[str, Any]) -> Verdict:
    """Check a certificate completely.

    Parameters
    ----------
    document : Mapping[str, Any]
        The document, as `read_certificate` returns it.

    Returns
    -------
    Verdict
        The verdict. Its lower bound is the one that the certificate claims, at most the bound of
        the proof. It is in seconds if the certificate has a batch time.

    Raises
    ------
    CertificateError
        The schedule is infeasible, or the proof does not support a claim.
    MalformedCertificateError
        A part is missing or malformed.
    CertificateTooLargeError
        The check would exceed the limits of `hindsight.certificates.limits`.
    """
    preemptive = isinstance(document, Mapping) and "stretches" in document
    in_seconds = isinstance(document, Mapping) and "batch_time" in document
    schedule = "stretches" if preemptive else "start_times"
    rest = ("batch_time",) if in_seconds else (schedule, "upper_bound")
    keys = ("format", "version", "instance", *rest, "lower_bound", "proof")
    keys_of(document, keys, "certificate", optional=() if in_seconds else ("assignment",))
    if document["format"] != FORMAT or whole(document["version"], "version") != VERSION:
        raise MalformedCertificateError("format or version is not that of this checker")
    if in_seconds:
        # Imported here, because it loads modules that other certificates do not need.
        from .seconds_proof import check_seconds

        return check_seconds(document)
    instance = read_instance(document["instance"])
    upper = total_latency(instance, document)
    if whole(document["upper_bound"], "upper_bound") != upper:
        raise CertificateError(
            f"upper_bound is {document['upper_bound']}, but the schedule's total latency is {upper}"
        )
    claim = whole(document["lower_bound"], "lower_bound")
    proof = read_proof(document, instance)
    if proof.preemptive != preemptive:
        raise CertificateError(
            f"proof: {proof.kind} is for another optimum than a schedule given by its {schedule}"
        )
    proof.schedule_cost = upper
    proved = proof.bound()
    if proved < claim:
        raise CertificateError(
            f"lower_bound is {claim}, but the proof proves no more than {proved}"
        )
    if claim > upper:
        raise CertificateError(f"lower_bound {claim} exceeds the feasible schedule's {upper}")
    sizes = len(instance.rows), 1, proof.leaves
    machine: Any = {"memory_rule": instance.memory_rule, "replicas": instance.replicas}
    return Verdict(claim, upper, proof.kind, *sizes, instance.digest, preemptive, **machine)


def read_proof(document: Mapping[str, Any], instance: Rows | None = None) -> Proof:
    """Read the proof of a document without computing its bound.

    Without ``instance``, the instance of the document is read too.

    Raises
    ------
    CertificateError
        The instance or the proof is malformed.
    """
    instance = read_instance(document.get("instance")) if instance is None else instance
    part: Any = document.get("proof")
    kind = part.get("kind") if isinstance(part, Mapping) else None
    if type(kind) is not str or kind not in KINDS:
        raise MalformedCertificateError(f"proof: kind {shown(kind)} is unknown")
    return KINDS[kind](instance, part)
