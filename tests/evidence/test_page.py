"""The page is a function of the results, and says plainly when no GPU was seen."""

from __future__ import annotations

from typing import Any

from evidence import _records, page


def results(part: int, **host: Any) -> dict[str, Any]:
    good = {
        **_records.row("memory", "ok", "", 3.2),
        "reason": None,
        "claims": [{"claim": "the peak is torch's", "holds": True, "measured": 7, "wanted": "7"}],
        "figures": {"peak_bytes": 7},
        "texts": {"tracekit paper table5": "## Phases\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"},
    }
    bad = _records.row("NCCL", "failed", "ended by signal 9: a | b", 90.0)
    return {
        "part": part,
        "is_dry": False,
        "created_at": "2026-01-31T12:00:00+00:00",
        "seconds": 500.0,
        "host": {
            "has_cuda": True,
            "device": "NVIDIA X",
            "device_memory_bytes": 80 * 2**30,
            "core_count": 16,
            "packages": {"torch": "2.11.0"},
            **host,
        },
        "problems": [],
        "did_not_fit": ["runs/x: its trace"],
        "shows": {"memory": "peaks held against torch's"},
        "rows": [good, bad],
    }


def test_the_page_of_two_parts() -> None:
    text = page.markdown([results(2), results(1)])
    assert text.index("## Part 1: Does it work") < text.index("## Part 2: The paper on this GPU")
    assert "NVIDIA X (80 GiB) · 16 cores · 500 s" in text
    assert "| NCCL | NCCL | failed | 90 |  | ended by signal 9: a \\| b |" in text
    assert "- holds: the peak is torch's: 7, wanted 7" in text
    assert "#### tracekit paper table5\n\n**Phases**\n\n| a | b |\n| --- | --- |\n| 1 | 2 |" in text
    assert "- did not fit: runs/x: its trace" in text
    assert "No GPU" not in text


def test_a_trial_is_no_evidence_of_a_gpu() -> None:
    text = page.markdown([results(1, has_cuda=False, device="CPU", device_memory_bytes=0)])
    assert "**No GPU was seen: this is a trial of the scripts on a CPU.**" in text
