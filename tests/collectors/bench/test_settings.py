"""The arguments of `tracekit bench` are checked before anything starts."""

from pathlib import Path

import pytest

from tracekit.collectors.bench.settings import Settings, validated
from tracekit.errors import UsageError


def test_values_become_settings(tmp_path):
    given = {
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
    ("what", "option", "values"),
    [
        ("gemm", "sizes", ["1KiB", "0x1x1"]),
        ("memcpy", "sizes", ["1x1x1", "0", "many", ","]),
        ("gemm", "dtype", ["int8"]),
        ("memcpy", "dtype", ["fp32"]),
        ("collectives", "dtype", ["fp8"]),
        ("gemm", "ops", ["h2d"]),
        ("gemm", "nproc", ["2"]),
        ("collectives", "nproc", ["0"]),
        ("all", "width", ["0"]),
        ("all", "seconds_per_point", ["-1"]),
        ("all", "device", ["tpu"]),
    ],
)
def test_wrong_values_are_refused(what, option, values):
    for value in values:
        with pytest.raises(UsageError) as caught:
            validated(what, {option: value})
        assert f"--{option.replace('_', '-')}" in caught.value.message


def test_nccl_needs_gpus():
    with pytest.raises(UsageError, match="--backend nccl"):
        validated("all", {"device": "cpu", "backend": "nccl"})
