"""The published trace formats: the same requests read from each, told apart, refused by row."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import read, write

from instances import FileFormatError, read_trace, trace_windows

# The same four requests in each format: 0, 0.5, 1.25 and 3 seconds after the first.
SECONDS = ("0", "0.5", "1.25", "3")
LENGTHS = ((374, 44), (396, 109), (879, 0), (91, 16))


def azure(zone: str = "") -> str:
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for seconds, (prompt, output) in zip(SECONDS, LENGTHS, strict=True):
        stamp = f"{Decimal('46.68059') + Decimal(seconds):.7f}"
        lines.append(f"2023-11-16 18:15:{stamp}{zone},{prompt},{output}")
    return "\n".join(lines) + "\n"


def vidur() -> str:
    rows = zip(SECONDS, LENGTHS, strict=True)
    return "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(
        f"{seconds},{prompt},{output}\n" for seconds, (prompt, output) in rows
    )


def burstgpt(*, sessions: bool = False) -> str:
    extra = "Session ID,Elapsed time," if sessions else ""
    cells = "8a2f,0.7," if sessions else ""
    text = f"Timestamp,{extra}Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    for seconds, (prompt, output) in zip(SECONDS, LENGTHS, strict=True):
        tokens = f"{prompt},{output},{prompt + output}"
        text += f"{Decimal(seconds) + 5},{cells}ChatGPT,{tokens},API log\n"
    return text


def mooncake() -> str:
    rows = [
        {
            "timestamp": int(Decimal(seconds) * 1000) + 27_482,
            "input_length": prompt,
            "output_length": output,
            "hash_ids": [0, 1, 2],
        }
        for seconds, (prompt, output) in zip(SECONDS, LENGTHS, strict=True)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


FILES = {
    "azure": azure(),
    "azure with zones": azure("+00:00"),
    "burstgpt": burstgpt(),
    "burstgpt with sessions": burstgpt(sessions=True),
    "mooncake": mooncake(),
    "vidur": vidur(),
}
everything = pytest.mark.parametrize("kind", FILES)


# --- the same requests in every format ----------------------------------------------------------


@everything
def test_every_format_gives_the_same_instance(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, FILES[kind])
    instance, report = read_trace(path, memory_limit=2000, round_seconds=0.5)
    assert instance.prompt_lengths.tolist() == [374, 396, 91]
    assert instance.output_lengths.tolist() == [44, 109, 16]
    assert instance.arrival_times.tolist() == [0, 1, 6]
    first = 1 if kind == "mooncake" else 2
    assert instance.ids == tuple(f"row{first + k}" for k in (0, 1, 3))
    assert (report.kept, report.dropped_empty, report.rows_in_window) == (3, 1, 4)
    assert report.format == kind.partition(" ")[0]
    assert instance.metadata["trace"]["format"] == report.format


@everything
@pytest.mark.parametrize("name", ["trace.gz", "trace.csv"])
def test_gzip_is_told_by_content(tmp_path: Path, kind: str, name: str) -> None:
    plain = read(write(tmp_path, FILES[kind], "plain"))[0]
    path = tmp_path / name
    path.write_bytes(gzip.compress(FILES[kind].encode()))
    packed = read(path)[0]
    assert packed.digest == plain.digest
    assert packed.ids == plain.ids
    assert packed.name == "trace[0s+3]"


@everything
def test_the_format_can_be_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, FILES[kind])
    name = kind.partition(" ")[0]
    assert read(path, format=name) == read(path)
    other = "vidur" if name != "vidur" else "azure"
    with pytest.raises(FileFormatError):
        read(path, format=other)


def test_columns_of_two_formats_need_a_name(tmp_path: Path) -> None:
    text = (
        "arrived_at,num_prefill_tokens,num_decode_tokens,Timestamp,Request tokens,Response tokens\n"
        "0,10,20,7,30,40\n"
    )
    path = write(tmp_path, text)
    assert read(path, format="vidur")[0].prompt_lengths.tolist() == [10]
    assert read(path, format="burstgpt")[0].prompt_lengths.tolist() == [30]


# --- files of lengths only ----------------------------------------------------------------------

LENGTHS_ONLY = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"


def test_a_file_without_arrivals_has_all_at_round_0(tmp_path: Path) -> None:
    path = write(tmp_path, LENGTHS_ONLY + "3772,54,3826,69.8\n1,9,10,0.1\n5,0,5,0\n")
    instance, report = read(path)
    assert instance.arrival_times.tolist() == [0]
    assert report.has_arrival_times is False
    assert (report.dropped_too_long, report.dropped_empty) == (1, 1)
    assert "no arrival times" in str(report)
    assert read(path, max_requests=2)[1].rows_in_window == 2


# --- what a row can get wrong -------------------------------------------------------------------


def test_blank_lines_count_as_lines(tmp_path: Path) -> None:
    for kind in ("vidur", "mooncake"):
        lines = ("\n\n" + FILES[kind]).splitlines()
        lines.insert(len(lines) - 1, "")
        instance, _ = read(write(tmp_path, "\n".join(lines)))
        last = len(lines)
        assert instance.ids[-1] == f"row{last}"


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(vidur().encode()))
    packed[15] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(packed)
    with pytest.raises(FileFormatError):
        read(path)


# --- windows in one pass, in bounded memory -----------------------------------------------------


@given(
    gaps=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    start=st.integers(0, 20),
    length=st.integers(1, 40),
    windows=st.integers(1, 4),
    most=st.none() | st.integers(1, 5),
)
def test_windows_are_what_single_reads_give(
    tmp_path_factory, gaps: list[int], start: int, length: int, windows: int, most: int | None
) -> None:
    path = tmp_path_factory.mktemp("windows") / "t.csv"
    moment, lines = 0, ["arrived_at,num_prefill_tokens,num_decode_tokens"]
    for gap in gaps:
        moment += gap
        lines.append(f"{moment / 10},{1 + moment % 7},{moment % 3}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    options = {"memory_limit": 8, "round_seconds": 0.1, "max_requests": most}
    expected: list[object] = []
    for k in range(windows):
        try:
            begin = float(Fraction(start + k * length, 10))
            expected.append(
                read_trace(path, start_seconds=begin, duration_seconds=length / 10, **options)
            )
        except FileFormatError as error:
            expected.append(str(error))
            break
    found: list[object] = []
    try:
        found.extend(
            trace_windows(
                path,
                start_seconds=start / 10,
                duration_seconds=length / 10,
                windows=windows,
                **options,
            )
        )
    except FileFormatError as error:
        found.append(str(error))
    assert found[len(found) - 1] == expected[-1]
    if not isinstance(expected[-1], str):
        assert found == expected
