"""What `tracekit bench` takes: values are checked before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracekit.collectors.bench.settings import Settings, validated
from tracekit.errors import UsageError


def test_values_become_settings(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "sizes": "512x256x128, 1KiB,3MB",
        "dtype": "bf16,fp32,bf16",
        "ops": "mm,all_reduce",
        "nproc": "4",
        "seconds_per_point": "0.5",
        "width": "5",
        "out": "x",
        "force": True,
        "device": None,
    }
    settings, rest = validated("all", given)
    assert settings.shapes == ((512, 256, 128),)
    assert settings.sizes_bytes == (1024, 3_000_000)
    assert (settings.dtypes, settings.ops) == (("bf16", "fp32"), ("mm", "all_reduce"))
    assert (settings.rank_count, settings.point_s, settings.width_pct) == (4, 0.5, 5.0)
    assert rest == {"out": Path("x"), "force": True}
    settings.write(tmp_path / "settings.json")
    assert Settings.read(tmp_path / "settings.json") == settings


@pytest.mark.parametrize(
    ("what", "values", "said"),
    [
        ("gemm", {"sizes": "1KiB"}, "--sizes in bytes are for copies and collectives"),
        ("memcpy", {"sizes": "1x1x1"}, "--sizes of the form MxNxK are for products"),
        ("memcpy", {"sizes": "0"}, "--sizes 0: a size must be 1 byte or more"),
        ("memcpy", {"sizes": "many"}, "--sizes is 'many', which is no size"),
        ("memcpy", {"sizes": ","}, "--sizes names no size"),
        ("gemm", {"sizes": "0x1x1"}, "--sizes 0x1x1: every side must be from 1 to 2147483647"),
        ("gemm", {"dtype": "int8"}, "--dtype 'int8': there are bf16, fp16, tf32, fp32, fp8"),
        ("memcpy", {"dtype": "fp32"}, "--dtype is for products and collectives"),
        ("collectives", {"dtype": "fp8"}, "--dtype 'fp8': there are fp32, bf16, fp16"),
        ("gemm", {"ops": "h2d"}, "--ops 'h2d': there are mm, scaled_mm, grouped_mm"),
        ("gemm", {"nproc": "2"}, "--nproc 2: it is for collectives"),
        ("collectives", {"nproc": "0"}, "--nproc is '0', which is not an integer of 1 or more"),
        ("all", {"width": "0"}, "--width is '0', which is not a number above 0 and up to 100"),
        (
            "all",
            {"seconds_per_point": "-1"},
            "--seconds-per-point is '-1', which is not a number above 0",
        ),
        ("all", {"device": "tpu"}, "--device is 'tpu', not one of cuda, cpu"),
        ("all", {"device": "cpu", "backend": "nccl"}, "--backend nccl needs GPUs"),
    ],
)
def test_what_does_not_fit_is_refused(what: str, values: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        validated(what, values)
    assert caught.value.message.startswith(said)
