"""The arguments of `tracekit bench` are checked before anything starts."""

from pathlib import Path

from tracekit.collectors.bench.settings import Settings, validated


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
