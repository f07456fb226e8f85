"""What any scheduler could have saved on a log, and which policy gets how much of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from _console import (
    INTERRUPTED_STATUS,
    check_output,
    fail,
    print_fields,
    print_table,
    progress_bar,
    run,
    typer,
    writing,
)
from _trace import (
    Column,
    DurationSeconds,
    MaxRequests,
    Sort,
    StartSeconds,
    TraceFormat,
    window_options,
)
from _trials import chosen_policies

from hindsight.runtime.cores import available_cores
from instances.batch_time import preset_names
from instances.files import write_atomically
from online.headroom.measuring import HeadroomProgress, measure_headroom
from online.headroom.page import headroom_page
from online.headroom.records import headroom_record
from online.headroom.tables import fields, notes, sentence, tables

UNDONE_STATUS = 1


def headroom(
    log: Annotated[Path, typer.Argument(help="Log or trace: plain or gzip.")],
    batch_time: Annotated[
        str,
        typer.Option(
            metavar="NAME, affine:d0,d1,d2, FILE.csv or fit",
            help="Seconds of a round: d0 + d1 * tokens processed + d2 * tokens held. A name "
            f"({', '.join(preset_names())}) sets --memory-limit too; a file has measured rounds "
            "(columns tokens, kv_tokens, seconds); fit takes the log's own inter-token times.",
        ),
    ],
    memory_limit: Annotated[
        int | None, typer.Option(help="M: tokens that the KV cache holds.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write one self-contained page, .html.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures, .json.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="Policy; repeatable. Default: all that need no parameters.",
        ),
    ] = None,
    baseline: Annotated[
        str, typer.Option(help="The policy that stands for what is there today.")
    ] = "vllm",
    challenger: Annotated[
        str, typer.Option(help="The policy beside it at other memories and loads.")
    ] = "mc-sf",
    prediction_error: Annotated[
        float,
        typer.Option(
            min=0,
            max=10,
            help="Policies also run on predicted output lengths, off by this share of the truth in "
            "the mean; 0: they do not.",
        ),
    ] = 0.5,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds for everything.")] = 600.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every random choice.")] = 0,
    faster: Annotated[
        float | None, typer.Option(help="Arrivals come this many times as fast.")
    ] = None,
    too_long: Annotated[
        str | None,
        typer.Option(help="A request above M: drop or clip; default: refuse the log."),
    ] = None,
    trace_format: TraceFormat = None,
    column: Column = None,
    sort: Sort = False,
    start_seconds: StartSeconds = None,
    duration_seconds: DurationSeconds = None,
    max_requests: MaxRequests = None,
) -> int:
    """How much latency, in seconds, any scheduler could have saved, and who gets how much of it.

    The best possible is the least mean latency of every scheduler of these requests, whatever it
    may do, as an interval; the headroom is what is there today less that. Ctrl-C and the time limit
    show what is done by then (exit status 130 and 1).
    """
    check_output(out, (".html", ".htm"))
    check_output(json_file, (".json",), "--json")
    specs = chosen_policies(policy)
    compared = chosen_policies([baseline]) + chosen_policies([challenger])
    log_read = read_requests(
        log,
        {"format": trace_format, "columns": column},
    )
    return 0
