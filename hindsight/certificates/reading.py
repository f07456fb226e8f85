"""Prices of a certificate as a solve goes on from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hindsight.configurations.proofs import StatePrices

from .checking import read_proof
from .state_proofs import StateProof


def state_prices_of(document: Mapping[str, Any]) -> StatePrices | None:
    """The prices of what runs together that a certificate has; None where it has none.

    Whatever they are, they prove what `hindsight.certificates.writing.bound_of_prices` finds.

    Parameters
    ----------
    document : Mapping[str, Any]
        As from `hindsight.read_certificate`.

    Raises
    ------
    CertificateError
        The instance or the prices are malformed.
    """
    proof = read_proof(document)
    if not isinstance(proof, StateProof):
        return None
    charges = proof.state_prices()
    states = np.array([*charges.states], dtype=np.int64).reshape(-1, 2)
    prices = np.zeros((len(charges.rows), proof.limit + 1, proof.limit + 1), dtype=np.int64)
    if charges.rows:
        prices[:, states[:, 0], states[:, 1]] = charges.rows
    return StatePrices(prices, proof.scale)
