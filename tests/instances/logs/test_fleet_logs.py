"""Logs of several replicas: which worker served a request, and BLIS's table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from log_files import EPOCH, REQUESTS, aiperf, blis, dynamo, lines, spans
from trace_files import write

from instances import FileFormatError, read_log, read_trace

KEPT = sorted((one for one in REQUESTS if one.output), key=lambda one: one.start)
TABLE = "t,p,o,pod\n3,5,1,b\n1,6,2,a \n2,7,3,\n"
NAMED = {"arrival": "t", "prompt": "p", "output": "o", "worker": "pod"}


def test_dynamo_names_the_worker_that_decoded(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, dynamo()))
    first, second = str(2**63), f"{2**63 + 1}:3"
    assert log.workers is not None
    assert log.workers.tolist() == [second, first, second, first]
    part = log.select(log.workers == second)
    assert part.prompt_lengths.tolist() == [374, 879]
    bare = lines(json.loads(line)["event"] for line in dynamo().splitlines())
    assert read_log(write(tmp_path, bare)).workers.tolist() == log.workers.tolist()


@pytest.mark.parametrize("sort", [True, False])
def test_a_named_column_is_the_worker(tmp_path: Path, sort: bool) -> None:
    path = write(tmp_path, TABLE if sort else TABLE.replace("3,5,1,b", "0,5,1,b"))
    log = read_log(path, columns=NAMED)
    workers = ["a", None, "b"] if sort else ["b", "a", None]
    assert log.workers.tolist() == workers
    assert "; 2 workers named" in str(log)
    assert read_log(path, columns={"prompt": "p", "output": "o"}).workers is None


def test_the_worker_alone_leaves_the_format_to_the_file(tmp_path: Path) -> None:
    text = lines(
        {**json.loads(line), "pod": {"name": f"w{k}"}}
        for k, line in enumerate(aiperf().splitlines())
    )
    path, worker = write(tmp_path, text), {"worker": "pod.name"}
    assert read_log(path).workers is None
    for kind in (None, "aiperf"):
        log = read_log(path, format=kind, columns=worker)
        assert (log.format, log.workers.tolist()) == ("aiperf", ["w1", "w0", "w3", "w4"])
    assert read_trace(path, memory_limit=2000, columns=worker)[1].columns == worker
    table = "TIMESTAMP,ContextTokens,GeneratedTokens,node\n2023-11-16 18:15:46.68,374,44,n7\n"
    log = read_log(write(tmp_path, table), columns={"worker": "node"})
    assert (log.format, log.workers.tolist()) == ("azure", ["n7"])


def test_spans_name_their_instance(tmp_path: Path) -> None:
    def resource(key: str, value: str) -> dict[str, object]:
        return {"attributes": [{"key": key, "value": {"stringValue": value}}]}

    first, second, third = (spans(REQUESTS[k : k + 1])["resourceSpans"][0] for k in (0, 1, 3))
    first["resource"] = resource("service.instance.id", "pod-a")
    first["resource"]["attributes"] += resource("host.name", "other")["attributes"]
    second["resource"] = resource("k8s.pod.name", "pod-b")
    third["resource"] = resource("region", "north")
    # What a span says of itself goes before its resource.
    third["scopeSpans"][0]["spans"][1]["attributes"] += resource("host.name", "c")["attributes"]
    path = write(tmp_path, json.dumps({"resourceSpans": [first, second, third]}))
    assert read_log(path).workers.tolist() == ["pod-b", "pod-a", "c"]
    named = read_log(path, columns={"worker": "region"})
    assert named.workers.tolist() == [None, None, "north"]


def test_blis_tables_give_the_same_requests(tmp_path: Path) -> None:
    path = write(tmp_path, blis())
    log = read_log(path)
    assert log.format == read_log(path, format="blis").format == "blis"
    assert log.arrival_times.tolist() == [one.start for one in KEPT]
    assert log.prompt_lengths.tolist() == [one.prompt for one in KEPT]
    assert log.output_lengths.tolist() == [one.output for one in KEPT]
    assert (log.rows, log.failed, log.workers) == (5, 1, None)
    np.testing.assert_allclose(log.latencies, [one.latency for one in KEPT], atol=1e-9)
    np.testing.assert_allclose(log.times_to_first_token, [one.first for one in KEPT], atol=1e-9)


def test_a_blis_table_written_again_with_decimals_is_the_same(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, re.sub(r"\b(\d{16})\b", r"\1.0", blis())))
    assert log.arrival_times.tolist() == [one.start for one in KEPT]
    np.testing.assert_allclose(log.latencies, [one.latency for one in KEPT], atol=1e-9)
    np.testing.assert_allclose(log.times_to_first_token, [one.first for one in KEPT], atol=1e-9)


def test_blis_rows_that_say_less(tmp_path: Path) -> None:
    sent = str(10**6 * EPOCH + 500_000)
    text = blis().replace("true", "false").replace(sent, "0", 1)
    # Without a time of sending the arrival counts; a stream that is none has no first token.
    log = read_log(write(tmp_path, text))
    assert log.arrival_times.tolist()[0] == 0.0
    assert log.prompt_lengths.tolist()[0] == 396
    assert np.isnan(log.times_to_first_token).all()
    with pytest.raises(FileFormatError, match="row 5: prefix_length 'x' is not a whole number"):
        read_log(write(tmp_path, blis().replace("3,g,40", "3,g,x")))
    early = blis().replace("prefix_length", "unread").replace("server_input_tokens", "unknown")
    assert read_log(write(tmp_path, early)).prompt_lengths.tolist() == [
        one.prompt - 40 for one in KEPT
    ]
