"""Columns as pandas data frames, for which pandas need not be there until one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def request_columns(requests: Any) -> dict[str, Any]:
    """Label, arrival, lengths and, if some is not 1, weight of each request, by name."""
    columns = {
        "id": list(requests.ids),
        "arrival_time": requests.arrival_times,
        "prompt_length": requests.prompt_lengths,
        "output_length": requests.output_lengths,
    }
    if getattr(requests, "is_weighted", False):
        columns["weight"] = requests.weights
    return columns


def data_frame(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
    """A pandas DataFrame of columns by name, or of rows.

    Raises
    ------
    ImportError
        Pandas is not installed; it comes with the extra ``experiments``.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "data frames need the package 'pandas': pip install 'llm-hindsight[experiments]'"
        ) from error
    return pandas.DataFrame(content)
