"""Units: suffixes of columns, and formatted values with exact digits."""

import pytest

from tracekit import units

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("name", "unit", "stem"),
    [
        *(("idle_ns", "ns", "idle"), ("wall_pct", "pct", "wall"), ("bytes", "bytes", "")),
        *(("total_memory_bytes", "bytes", "total_memory"), ("kernel_count", "count", "kernel")),
        *(("bandwidth_bytes_per_s", "bytes_per_s", "bandwidth"), ("clock_hz", "hz", "clock")),
        *(("tokens_per_s", "per_s", "tokens"), ("peak_flop_per_s", "flop_per_s", "peak")),
        *(("recompute_flops", "flops", "recompute"), ("rank", None, "rank")),
        *(("columns", None, "columns"), ("account", None, "account")),
    ],
)
def test_a_column_name_states_its_unit(name, unit, stem):
    assert (units.unit_of(name), units.stem_of(name)) == (unit, stem)


@pytest.mark.parametrize(
    ("ns", "decimals", "text"),
    [
        *((113_440_000, 3, "113.440"), (12_854_103_000, 3, "12,854.103"), (499, 3, "0.000")),
        *((500, 3, "0.001"), (-500, 3, "-0.001"), (-499, 3, "0.000"), (1_999_999, 0, "2")),
        *((INT64_MAX, 6, "9,223,372,036,854.775807"), (1_500_000.0, 3, "1.500")),
        (-INT64_MAX, 6, "-9,223,372,036,854.775807"),
    ],
)
def test_milliseconds_are_rounded_without_a_double(ns, decimals, text):
    assert units.format_ms(ns, decimals) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        *((0, "0 ns"), (812, "812 ns"), (812.4567, "812 ns"), (4_186, "4.186 µs")),
        *((113_440_000, "113.440 ms"), (12_854_103_000, "12.854 s"), (-4_186, "-4.186 µs")),
    ],
)
def test_a_duration_has_a_suitable_unit(ns, text):
    assert units.format_duration(ns) == text


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        *(([], 3), ([113_440_000, 12_000], 3), ([19_000], 3), ([113_440_001], 3)),
        *(([999_999], 4), ([30_912], 5), ([812], 6), ([100_000_000_000], 1)),
    ],
)
def test_a_column_of_milliseconds_has_sensible_digits(values, decimals):
    assert units.ms_decimals(values) == decimals


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (1_250_000_000, "1.25 GB")]
)
def test_a_gigabyte_is_1e9_bytes(size, text):
    assert units.format_bytes(size) == text
    assert units.format_bytes_per_s(size) == text + "/s"


@pytest.mark.parametrize(
    ("pct", "text"), [(0, "0.0"), (0.001, "<0.1"), (0.05, "0.1"), (96.36, "96.4"), (100, "100.0")]
)
def test_a_small_share_is_not_shown_as_zero(pct, text):
    assert units.format_pct(pct) == text


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("2GB", 2 * 10**9), ("512MiB", 2**29), ("1000", 1000), ("1.5k", 1500), ("4 Gi", 2**32)],
)
def test_sizes_are_read(text, size_bytes):
    assert units.parse_bytes(text) == size_bytes


def test_times_are_read():
    assert [units.parse_duration(text) for text in ("41.4ms", "1 s", "2µs")] == [
        *(41_400_000, 10**9, 2_000)
    ]


@pytest.mark.parametrize("text", ["", "3q", "-1", "0s", "1e3", 5000 * "9", "nan", "1 2"])
def test_other_texts_are_no_size_and_no_time(text):
    for parse in (units.parse_bytes, units.parse_duration):
        with pytest.raises(ValueError, match=r"size|time"):
            parse(text)
