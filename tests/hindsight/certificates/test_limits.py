"""Limits of the checker are honoured to the last number."""

from __future__ import annotations

import pytest
from documents import LEAST_LIMITS, NAMES, tight
from effort import sweep

from hindsight import check_certificate
from hindsight.certificates import limits
from hindsight.certificates.format import CertificateTooLargeError


@pytest.mark.parametrize("name", sweep(NAMES, 2))
def test_limits_are_honoured_to_the_last_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python tests/support/document_limits.py` wrote down what is counted: no more, no less."""
    for limit, least in LEAST_LIMITS[name].items():
        with monkeypatch.context() as patch:
            patch.setattr(limits, limit, least)
            check_certificate(tight(name))
            patch.setattr(limits, limit, least - 1)
            with pytest.raises(CertificateTooLargeError):
                check_certificate(tight(name))
