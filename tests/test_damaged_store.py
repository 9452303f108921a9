"""A store that was cut off is said to be damaged, under a name that the user knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tracekit
from tracekit.analysis.catalog import make_digest


def test_a_store_that_was_cut_off(
    cli: Callable[..., Any],
    sample_trace: Path,
    opened: Callable[[Path], tracekit.Trace],
    tmp_path: Path,
) -> None:
    store, made = tmp_path / "run.duckdb", opened(sample_trace).store_path
    assert made is not None
    whole = made.read_bytes()
    for share in (0.3, 0.6):
        store.write_bytes(whole[: int(len(whole) * share)])
        done = cli("breakdown", store)
        assert (done.exit_code, done.stdout) == (4, "")
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith(f"error: {store}: ")
        assert "the store is damaged or cut off" in done.stderr


def test_a_damaged_record_of_what_made_it(
    cli: Callable[..., Any],
    sample_trace: Path,
    opened: Callable[[Path], tracekit.Trace],
    tmp_path: Path,
) -> None:
    store, made = tmp_path / "run.duckdb", opened(sample_trace).store_path
    assert made is not None
    content = bytearray(made.read_bytes())
    content[content.index(make_digest().encode())] ^= 1
    store.write_bytes(content)
    done = cli("breakdown", store)
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.startswith(f"error: {store}: not a store that tracekit can open")
    assert "Traceback" not in done.stderr
