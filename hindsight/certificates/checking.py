"""Check of a certificate: its schedule and its proof of a lower bound, without any solver.

The checker imports nothing from the solver. From `instances` it takes the classes of problems,
which check the requests and compute their digest. A check of the solver's claims must not depend on
the solver's code, so code that both need exists twice on purpose. The modules of the checker are:

* `hindsight.certificates.format`: the JSON file and the form of its parts;
* `hindsight.certificates.problem`: the instance, and the total latency of its schedule;
* `hindsight.certificates.proofs`: the base class of all proofs, and proofs by prices alone;
* `hindsight.certificates.state_proofs`: proofs by prices of states;
* `hindsight.certificates.replay`: proofs by an exhaustive search, which the checker repeats;
* `hindsight.certificates.path_proof`, `hindsight.certificates.path_layers`,
  `hindsight.certificates.path_states`: proofs by graphs whose paths stand for schedules;
* `hindsight.certificates.seconds_proof`, `hindsight.certificates.priced_values`: proofs of bounds
  in seconds. These are an exception: they use exact fractions that modules of the solver compute,
  and payments in floats, which are rounded outward to integers;
* `hindsight.certificates.limits`: limits on the time and memory of a check.

For certificates in rounds, all arithmetic is on integers. Arrays have 32 or 64 bits: before they
are computed, a test in Python integers shows that the results fit. The format is described in
docs/certificates.md. A claim that is false or not proved raises `CertificateError`. A document that
is malformed or too expensive to check raises a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .format import FORMAT, VERSION, CertificateError, Verdict, demand, keys_of, shown, whole
from .path_proof import PathProof
from .problem import Rows, read_instance, total_latency
from .proofs import MemoryProof, PreemptiveMemoryProof, PreemptiveProof, Proof
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
    """Check a certificate completely: its form, its schedule and its proof of a lower bound.

    Parameters
    ----------
    document : Mapping[str, Any]
        The certificate, as `read_certificate` returns it.

    Returns
    -------
    Verdict
        The bounds that the certificate proves: in seconds if it has a batch time, else in rounds.
        The lower bound is the one that the certificate claims. Its proof may prove a larger one.

    Raises
    ------
    CertificateError
        The schedule is infeasible, or the proof does not support a claim.
    MalformedCertificateError
        A part is missing or malformed.
    CertificateTooLargeError
        The check would exceed the limits of `hindsight.certificates.limits`.
    """
    known = document if isinstance(document, Mapping) else {}
    preemptive, in_seconds = "stretches" in known, "batch_time" in known
    schedule = "stretches" if preemptive else "start_times"
    rest = ("batch_time",) if in_seconds else (schedule, "upper_bound")
    keys = ("format", "version", "instance", *rest, "lower_bound", "proof")
    keys_of(document, keys, "certificate", optional=() if in_seconds else ("assignment",))
    is_known = document["format"] == FORMAT and whole(document["version"], "version") == VERSION
    demand(is_known, "format or version is not that of this checker")
    if in_seconds:
        # Import `seconds_proof` only for certificates in seconds, because it loads modules of the
        # solver. The check of certificates in rounds needs none of them.
        from .seconds_proof import check_seconds

        return check_seconds(document)
    instance = read_instance(document["instance"])
    upper = total_latency(instance, document)
    stated = whole(document["upper_bound"], "upper_bound")
    reason = f"upper_bound is {stated}, but the schedule's total latency is {upper}"
    demand(stated == upper, reason, CertificateError)
    claim = whole(document["lower_bound"], "lower_bound")
    proof = read_proof(document, instance)
    reason = f"proof: {proof.kind} is for another optimum (preemptive or not) than the {schedule}"
    demand(proof.preemptive == preemptive, reason, CertificateError)
    proof.schedule_cost = upper
    proved = proof.bound()
    reason = f"lower_bound is {claim}, but the proof proves no more than {proved}"
    demand(claim <= proved, reason, CertificateError)
    reason = f"lower_bound {claim} exceeds the schedule's total latency {upper}"
    demand(claim <= upper, reason, CertificateError)
    sizes, given = (len(instance.rows), proof.leaves), instance.given
    facts: Any = given.digest, preemptive, given.memory_rule.told, None, given.replicas
    return Verdict(claim, upper, proof.kind, *sizes, *facts)


def read_proof(document: Mapping[str, Any], instance: Rows | None = None) -> Proof:
    """Read the proof of a certificate without computing the lower bound that it proves.

    ``instance`` is the instance of the certificate. If it is None, it is read from ``document``.

    Raises
    ------
    CertificateError
        The instance or the proof is malformed.
    """
    instance = read_instance(document.get("instance")) if instance is None else instance
    part: Any = document.get("proof")
    kind: Any = part.get("kind") if isinstance(part, Mapping) else None
    demand(type(kind) is str and kind in KINDS, f"proof: kind {shown(kind)} is unknown")
    return KINDS[kind](instance, part)
