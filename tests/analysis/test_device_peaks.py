"""The peak rates of devices: which entry a name finds, and that the table makes sense."""

from __future__ import annotations

import re

import pytest

from tracekit.analysis.device_peaks import load_device_peaks, peak_of


@pytest.mark.parametrize(
    ("name", "product", "bf16", "memory"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", 989.5e12, 3.35e12),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 756.5e12, 2.0e12),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL", 835.5e12, 3.9e12),
        ("NVIDIA H200", "NVIDIA H200 SXM", 989.5e12, 4.8e12),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL", 835.5e12, 4.8e12),
        ("NVIDIA GH200 480GB", "NVIDIA GH200, 96 GB HBM3", 989.5e12, 4.0e12),
        ("NVIDIA H20", "NVIDIA H20", 148e12, 4.0e12),
        ("NVIDIA H800", "NVIDIA H800 SXM", 989.5e12, 3.35e12),
        ("NVIDIA GB200", "NVIDIA GB200", 2.5e15, 8.0e12),
        ("NVIDIA B200", "NVIDIA B200", 2.25e15, 7.7e12),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80 GB", 312e12, 2.039e12),
        ("NVIDIA A800-SXM4-80GB", "NVIDIA A100 SXM 80 GB", 312e12, 2.039e12),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80 GB", 312e12, 1.935e12),
        ("NVIDIA A800 80GB PCIe", "NVIDIA A100 PCIe 80 GB", 312e12, 1.935e12),
        ("A100-SXM4-40GB", "NVIDIA A100 40 GB", 312e12, 1.555e12),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 40 GB", 312e12, 1.555e12),
        ("NVIDIA A100-PG509-200", "NVIDIA A100 40 GB", 312e12, 1.555e12),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", 165.2e12, 1008e9),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090", 71e12, 936e9),
        ("NVIDIA L40S", "NVIDIA L40S", 362.05e12, 864e9),
        ("NVIDIA A10", "NVIDIA A10", 125e12, 600e9),
        ("Tesla T4", "NVIDIA T4", None, 320e9),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 SXM2", None, 900e9),
        ("Tesla V100-DGXS-32GB", "NVIDIA V100 SXM2", None, 900e9),
        ("AMD Instinct MI210", "AMD Instinct MI210", 181e12, 1.6384e12),
        ("AMD Instinct MI250X", "AMD Instinct MI250X, one GCD", 191.5e12, 1.6384e12),
        ("AMD Instinct MI250", "AMD Instinct MI250, one GCD", 181.05e12, 1.6384e12),
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X", 1307.4e12, 5.3e12),
        ("AMD Instinct MI325X", "AMD Instinct MI325X", 1307.4e12, 6.0e12),
        ("AMD Instinct MI355X", "AMD Instinct MI355X", 2516.6e12, 8.0e12),
    ],
)
def test_names_of_traces(name: str, product: str, bf16: float | None, memory: float) -> None:
    peak = peak_of(name)
    assert peak is not None
    assert (peak.product, peak.flop_per_s.get("bf16")) == (product, bf16)
    assert peak.memory_bytes_per_s == memory


@pytest.mark.parametrize(
    "name",
    [
        "",
        "AMD Radeon Graphics",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "A100X",
        "NVIDIA A10G",
        "NVIDIA H100",
        "NVIDIA H100 96GB HBM3",
        # Slices of a GPU.
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
        # Other products whose names hold those of the table.
        "NVIDIA GH200 144G HBM3e",
        "NVIDIA GB200 NVL4",
        "NVIDIA H200X",
        "NVIDIA B200A",
        "NVIDIA L40S-48C",
        "AMD Instinct MI300X HF",
        "AMD Instinct MI300XHF",
        "AMD Instinct MI300A",
        # The driver does not tell which of the two it is.
        "AMD Instinct MI250X/MI250",
    ],
)
def test_other_devices_are_unknown(name: str) -> None:
    assert peak_of(name) is None


def test_the_table_makes_sense() -> None:
    peaks = load_device_peaks()
    assert len({peak.product for peak in peaks}) == len(peaks)
    for peak in peaks:
        # A pattern that takes anything may stand for products of other rates.
        assert not re.search(r"[.][*+]", peak.pattern), peak.product
        assert len(peak.source) > 10, peak.product
        assert peak.flop_per_s["fp32"] > 1e12
        assert 2e11 < peak.memory_bytes_per_s < 1e13
        rates = peak.flop_per_s
        order = [rates[key] for key in ("fp32", "tf32", "fp16", "fp8") if key in rates]
        assert order == sorted(order), peak.product
        assert set(rates) <= {"fp8", "bf16", "fp16", "tf32", "fp32", "fp64", "int8"}
