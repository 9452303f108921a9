"""The summary and the manifest of a serving run agree with the analyses of its folder."""

import json

from tracekit import manifest
from tracekit.cli.commands.collect import _serving_figures as figures_of
from tracekit.collectors.serving import manifest as serving_manifest
from tracekit.collectors.serving import records as requests_file
from tracekit.collectors.serving.records import RequestRecord
from tracekit.manifest import Load, Manifest


def request(number, outcome, sent_ns, end_ns, **members):
    token_ns = members.get("token_ns", [])
    derived = {
        "first_token_ns": token_ns[0] if token_ns else None,
        "output_token_count": len(token_ns),
    }
    return RequestRecord(
        number, outcome=outcome, sent_ns=sent_ns, end_ns=end_ns, **(derived | members)
    )


REQUESTS = [
    request(0, "ok", 7, 311, token_ns=[107, 207, 307]),
    request(1, "ok", 13, 400, arrival_ns=10, token_ns=[400]),
    # Not streamed: the time of the first token is unknown.
    request(2, "ok", 20, 831, arrival_ns=20, output_token_count=5),
    # Its first token is known from its tokens alone.
    request(3, "ok", 25, 322, arrival_ns=20, token_ns=[222, 322], first_token_ns=None),
    # When it was sent is not known.
    request(4, "ok", None, 700, arrival_ns=30, token_ns=[600, 700]),
    # Sent first and ended last of all.
    request(5, "timeout", 2, 990, token_ns=[50, 60]),
    request(6, "refused", None, 35, arrival_ns=30),
    request(7, "cancelled", None, None, arrival_ns=40),
    request(8, "ok", -900, -100, arrival_ns=-900, is_warmup=True, token_ns=[-500, -100]),
    request(9, "ok", 991, 999, arrival_ns=991, is_profiled=True, token_ns=[995, 999]),
]


def write(folder, records):
    folder.mkdir()
    measured = serving_manifest.counted(records)
    run = Manifest(
        run_id="one",
        tracekit_version="0",
        created_at="2026-01-01T00:00:00Z",
        stage="serve",
        engine="vllm",
        tokens_per_s_mean=serving_manifest.output_tokens_per_s(measured),
        load=Load(len(measured), prompt_token_count=4, max_new_token_count=5),
    )
    requests_file.write(records, folder)
    manifest.write(run, folder)
    return run


def test_figures_on_paper(cli, tmp_path):
    folder = tmp_path / "run"
    run = write(folder, REQUESTS)
    shown = serving_manifest.summary_lines(run, REQUESTS, folder, figures_of(folder))
    assert shown == [
        "serve (vllm), burst: 5 of 8 requests answered",
        "failed: 1 timeout, 1 refused, 1 cancelled (mostly: timeout)",
        # From 2 to 831; 3 + 1 + 5 + 2 + 2 tokens.
        "throughput: 15,681,544 output tokens/s over 829 ns",
        # 297, 304, 387 and 811: of the fifth it is not known when it was sent.
        "latency: p50 304 ns, p99 811 ns, max 811 ns",
        # 100, 197 and 387.
        "time to first token: p50 197 ns, p99 387 ns, max 387 ns",
        f"show the time breakdown: tracekit query latency {folder}",
    ]
    without = serving_manifest.summary_lines(run, REQUESTS, folder)
    assert without == [*shown[:2], shown[-1]]

    def figures(name):
        return json.loads(cli("query", name, folder, "--format", "json").stdout)

    (throughput,) = figures("throughput")
    latency = figures("latency")
    measured = serving_manifest.counted(REQUESTS)
    assert throughput["interval_ns"] == serving_manifest.interval_ns(measured) == 829
    rate = serving_manifest.output_tokens_per_s(measured)
    assert throughput["output_tokens_per_s"] == rate == 13e9 / 829
    assert [row["value_count"] for row in latency] == [4, 3, 3, 4, 4]


def test_the_run_exists_even_without_displayable_figures(tmp_path):
    """A run that cannot be opened, and a run without an answer."""
    (line,) = figures_of(tmp_path / "gone")
    assert str(tmp_path / "gone") in line
    folder = tmp_path / "run"
    write(folder, REQUESTS[5:8])
    assert figures_of(folder) == []
