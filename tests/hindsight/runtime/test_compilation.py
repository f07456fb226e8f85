"""Kernels compile, whether or not their machine code can be kept."""

from __future__ import annotations

import pytest

from hindsight.runtime import compilation


def test_kernels_compile_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compiler:
        @staticmethod
        def njit(*, cache: bool = False, **_: object) -> object:
            def refuse(_: object) -> object:
                raise RuntimeError("cannot cache function: no locator available")

            return refuse if cache else lambda function: function

    monkeypatch.setattr(compilation, "numba", Compiler)
    assert compilation.njit(abs) is abs
