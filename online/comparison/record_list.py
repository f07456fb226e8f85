"""The records of a comparison together: as a data frame, as tables, in a notebook."""

from __future__ import annotations

from typing import Any

from instances import html
from instances.frames import data_frame
from online.runtime.table import Table

from .ratio_tables import record_cells, records_table, summary_table
from .summaries import PolicySummary, summarise
from .trial import Trial


class Records(list[Trial]):
    """A list of trials that shows itself."""

    def __repr__(self) -> str:
        return f"Records({len(self)} records of {len(summarise(self))} policies)"

    def frame(self) -> Any:
        """A pandas DataFrame, one line a record; intervals are two columns, lower and upper.

        Raises
        ------
        ImportError
            Pandas is not installed.
        """
        return data_frame([record_cells(one) for one in self])

    def summary(self) -> Table:
        """One row a policy, for print: text, Markdown, LaTeX."""
        return summary_table(summarise(self))

    def table(self) -> Table:
        """One row a record, for print."""
        return records_table(self)

    def _repr_html_(self) -> str:
        return summary_html(summarise(self)) + self.table()._repr_html_()


def summary_html(summaries: list[PolicySummary]) -> str:
    """`summary_table` with a bar for each mean ratio, from 1 on."""
    table = summary_table(summaries)
    ratios = [summary.mean_ratio.ends for summary in summaries]
    end = max((end for ends in ratios for end in ends if end is not None), default=2.0)
    end = max(end, 1.01)
    bars = [html.interval_bar(*ends, 1.0, end) for ends in ratios]
    axis = f"1 to {end:.4g}"
    return html.table(table.columns, table.rows, table.text_columns, table.title, bars, axis)
