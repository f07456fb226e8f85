"""Columns as pandas data frames, for which pandas need not be there until one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def request_columns(requests: Any) -> dict[str, Any]:
    """Label, arrival and lengths of each request of an instance or a workload, by name."""
    return {
        "id": list(requests.ids),
        "arrival_time": requests.arrival_times,
        "prompt_length": requests.prompt_lengths,
        "output_length": requests.output_lengths,
    }


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
