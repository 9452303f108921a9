"""Peak rates of devices: which entry a name finds, and plausibility of the table."""

import re

import duckdb
import pytest

from tracekit.analysis.library import library_file, start_session
from tracekit.analysis.names.device_peaks import fill_device_peaks, load_device_peaks, peak_of
from tracekit.database.connections import create_tables


@pytest.mark.parametrize(
    ("name", "product", "bf16", "memory"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", 989.5e12, 3.35e12),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 756.5e12, 2.0e12),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL", 835.5e12, 3.9e12),
        ("NVIDIA H200", "NVIDIA H200 SXM", 989.5e12, 4.8e12),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL", 835.5e12, 4.8e12),
        ("NVIDIA GH200 480GB", "NVIDIA GH200, 96 GB HBM3", 989.5e12, 4.0e12),
        ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200, 144 GB HBM3e", 989.5e12, 4.9e12),
        ("NVIDIA H20", "NVIDIA H20", 148e12, 4.0e12),
        ("NVIDIA H800", "NVIDIA H800 SXM", 989.5e12, 3.35e12),
        ("NVIDIA GB200", "NVIDIA GB200", 2.5e15, 8.0e12),
        ("NVIDIA B200", "NVIDIA B200", 2.25e15, 7.7e12),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80 GB", 312e12, 2.039e12),
        ("NVIDIA A800-SXM4-80GB", "NVIDIA A800 SXM 80 GB", 312e12, 2.039e12),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80 GB", 312e12, 1.935e12),
        ("NVIDIA A800 80GB PCIe", "NVIDIA A800 PCIe 80 GB", 312e12, 1.935e12),
        ("A100-SXM4-40GB", "NVIDIA A100 40 GB", 312e12, 1.555e12),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 40 GB", 312e12, 1.555e12),
        ("NVIDIA A100-PG509-200", "NVIDIA A100 40 GB", 312e12, 1.555e12),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", 165.2e12, 1008e9),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090", 71e12, 936e9),
        ("NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080", 59.5e12, 760e9),
        ("NVIDIA L40S", "NVIDIA L40S", 362.05e12, 864e9),
        ("NVIDIA L40", "NVIDIA L40", 181.05e12, 864e9),
        ("NVIDIA L4", "NVIDIA L4", 121e12, 300e9),
        ("NVIDIA A10", "NVIDIA A10", 125e12, 600e9),
        ("Tesla T4", "NVIDIA T4", None, 320e9),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2", None, 900e9),
        ("Tesla V100-PCIE-16GB", "NVIDIA V100 PCIe", None, 900e9),
        ("Tesla V100S-PCIE-32GB", "NVIDIA V100S PCIe", None, 1134e9),
        ("Tesla V100-DGXS-32GB", "NVIDIA V100 of a DGX Station", None, 900e9),
        ("AMD Instinct MI210", "AMD Instinct MI210", 181e12, 1.6384e12),
        ("AMD Instinct MI250X", "AMD Instinct MI250X, one GCD", 191.5e12, 1.6384e12),
        ("AMD Instinct MI250", "AMD Instinct MI250, one GCD", 181.05e12, 1.6384e12),
        ("AMD Instinct MI300A", "AMD Instinct MI300A", 980.6e12, 5.3e12),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X", 1307.4e12, 5.3e12),
        ("AMD Instinct MI325X", "AMD Instinct MI325X", 1307.4e12, 6.0e12),
        ("AMD Instinct MI355X", "AMD Instinct MI355X", 2516.6e12, 8.0e12),
    ],
)
def test_names_of_traces(name, product, bf16, memory):
    peak = peak_of(name)
    assert (peak.product, peak.flop_per_s.get("bf16")) == (product, bf16)
    assert peak.memory_bytes_per_s == memory


@pytest.mark.parametrize(
    "name",
    [
        *("", "AMD Radeon Graphics", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D"),
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "A100X", "NVIDIA A10G", "NVIDIA H100"),
        *("NVIDIA H100 96GB HBM3", "NVIDIA H100 SXM"),
        # Slices of a GPU.
        *("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-80GB MIG 3g.40gb"),
        # Other products whose names contain those of the table.
        *("NVIDIA GB200 NVL4", "NVIDIA H200X", "NVIDIA B200A", "NVIDIA L40S-48C"),
        *("AMD Instinct MI300X HF", "AMD Instinct MI300XHF", "NVIDIA A100-SXM-64GB"),
        *("NVIDIA A800 40GB Active", "NVIDIA H20-3e", "NVIDIA H800 NVL", "NVIDIA L4 24GB"),
        "NVIDIA L400",
        # The vendor published no figures.
        *("NVIDIA H800 PCIe", "NVIDIA A800-SXM4-40GB", "NVIDIA PG509-210", "NVIDIA A100-PG509-201"),
        # Lower clocks than the module without the suffix.
        "Tesla V100-SXM2-32GB-LS",
        # The driver does not say which of the two it is.
        "AMD Instinct MI250X/MI250",
    ],
)
def test_other_devices_are_unknown(name):
    assert peak_of(name) is None


def test_a_partition_of_a_device_is_not_the_device():
    name = "AMD Instinct MI300X"
    assert peak_of(name, 304) is peak_of(name) is not None
    # If exposed as a device, one of the eight dies has the name of the entire GPU.
    assert peak_of(name, 38) is None
    # The number of units does not matter where the name is unambiguous.
    assert peak_of("NVIDIA B200", 148) is peak_of("NVIDIA B200") is not None


@pytest.mark.parametrize(
    ("counts", "rows"), [((304, 304), {"*"}), ((38, 38), set()), ((304, 38), {"0"})]
)
def test_each_device_of_a_trace_has_the_peak_of_its_units(counts, rows):
    with duckdb.connect() as connection:
        start_session(connection, is_complete=True)
        create_tables(connection, library_file())
        for number, count in enumerate(counts):
            connection.execute(
                "INSERT INTO device (trace_id, device_id, name, sm_count) "
                "VALUES (0, ?, 'AMD Instinct MI300X', ?)",
                [number, count],
            )
        fill_device_peaks(connection)
        found = connection.execute("SELECT DISTINCT device FROM device_peak").fetchall()
    assert {device for (device,) in found} == rows


def test_every_entry_has_a_source():
    peaks = load_device_peaks()
    assert len({peak.product for peak in peaks}) == len(peaks)
    for peak in peaks:
        # A wildcard could match products with other rates.
        assert not re.search(r"[.][*+]", peak.pattern), peak.product
        assert len(peak.source) > 10, peak.product
        assert re.fullmatch(r"https://[\w.-]+/\S+", peak.address), peak.product
        if "no datasheet" not in peak.source and "withdrawn" not in peak.source:
            vendor = "amd.com" if peak.product.startswith("AMD") else r"nvidia|nvdam\.widen\.net"
            assert re.search(vendor, peak.address), peak.product


def ratio(peak, above, below):
    """Return the ratio of two rates, or None if one is missing."""
    rates = peak.flop_per_s
    return rates[above] / rates[below] if above in rates and below in rates else None


@pytest.mark.parametrize("peak", load_device_peaks(), ids=lambda peak: peak.product)
def test_ratios_between_types(peak):
    """Rates with sparsity or of another accumulator would be twice as high."""
    rates = peak.flop_per_s
    assert set(rates) <= {"fp8", "bf16", "fp16", "tf32", "fp32", "fp64", "int8"}
    assert 2e11 < peak.memory_bytes_per_s < 1e13
    assert ratio(peak, "bf16", "fp16") in (None, 1)
    # Half the width, twice the rate; datasheets round (733 for twice 362.05; 1.1 for 1.125).
    for above, below in (("fp8", "fp16"), ("fp16", "tf32")):
        if (found := ratio(peak, above, below)) is not None:
            assert found == pytest.approx(2, rel=0.03), (above, below)
    # Units for bf16 came with Ampere, for fp8 with Hopper, Ada and CDNA 3.
    assert ("bf16" in rates) == (re.search("V100|T4", peak.product) is None)
    assert ("fp8" in rates) == bool(re.search(r"B200|H[128]0|GH200|L4|4090|MI3", peak.product))
    assert ("int8" in rates) == ("V100" not in peak.product)
    # GeForce: full rate for int8, half for fp16. CDNA 2: int8 as fast as fp16.
    steps = 4 if "GeForce" in peak.product else 1 if "MI2" in peak.product else 2
    if (found := ratio(peak, "int8", "fp16")) is not None:
        assert found == pytest.approx(steps, rel=0.03)
    if (found := ratio(peak, "fp16", "fp32")) is not None:
        assert 1.9 < found < 35
    if (found := ratio(peak, "fp64", "fp32")) is not None:
        assert 0.45 < found <= 1


def test_devices_of_one_chip_have_the_same_rates():
    rates = {peak.product: peak.flop_per_s for peak in load_device_peaks()}
    h100 = rates["NVIDIA H100 SXM"]
    same = [rate for name, rate in rates.items() if re.search("H200 SXM|GH200", name)]
    assert same == [h100] * 3
    assert rates["NVIDIA H800 SXM"].items() < h100.items()
    assert rates["NVIDIA H100 NVL"] == rates["NVIDIA H200 NVL"]
    a100 = [rate for name, rate in rates.items() if re.search("A[18]00 ", name)]
    assert a100 == [a100[0]] * 5
    assert rates["AMD Instinct MI325X"] == rates["AMD Instinct MI300X"]
