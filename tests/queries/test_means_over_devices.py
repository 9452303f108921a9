"""Means per step over the devices of a run: by hand, from rows that one can read."""

from __future__ import annotations

from typing import Any

import pytest
from given_rows import analysis_of, rows_of

from tracekit.analysis.result import Result


def reduced(name: str, *inputs: Result) -> list[dict[str, Any]]:
    return analysis_of(name, *inputs).to_dicts()


def steps(*counts: int) -> Result:
    """Ranks with so many steps each, and a row for what is outside of them."""
    return rows_of(
        "steps",
        *(
            {
                "rank": rank,
                "device": "0",
                "step": step,
                "span_ns": None if step is None else 10,
            }
            for rank, count in enumerate(counts)
            for step in [*range(count), None]
        ),
    )


# -- transfer_steps --------------------------------------------------------------------------------


def test_a_device_without_such_a_collective_counts_as_none_of_it() -> None:
    comm = rows_of(
        "communication",
        {"rank": 0, "device": "0", "class": "comm_allreduce", "step_kernel_ns": 8, "step_pct": 40},
        {"rank": 0, "device": "0", "class": "comm_allreduce", "step_kernel_ns": 2, "step_pct": 10},
        {"rank": 1, "device": "0", "class": "comm_allgather", "step_kernel_ns": 4, "step_pct": 20},
    )
    copies = rows_of(
        "memcpy_steps",
        *(
            {"rank": 1, "device": "0", "direction": name, "step_kernel_ns": 6, "step_pct": 30}
            for name in ("memcpy_h2d", "(all)")
        ),
    )
    rows = reduced("transfer_steps", steps(2, 2), comm, copies)
    assert [tuple(row.values()) for row in rows] == [
        ("comm", "comm_allreduce", 5.0, 25.0, 2),
        ("comm", "comm_allgather", 2.0, 10.0, 2),
        ("comm", "(all)", 7.0, 35.0, 2),
        ("memcpy", "memcpy_h2d", 3.0, 15.0, 2),
        ("memcpy", "(all)", 3.0, 15.0, 2),
    ]


def test_a_run_without_copies_takes_no_time_for_them_and_one_without_steps_tells_nothing() -> None:
    comm, copies = rows_of("communication"), rows_of("memcpy_steps")
    rows = reduced("transfer_steps", steps(1), comm, copies)
    assert [tuple(row.values()) for row in rows] == [
        ("comm", "(all)", 0.0, 0.0, 1),
        ("memcpy", "(all)", 0.0, 0.0, 1),
    ]
    assert reduced("transfer_steps", steps(0), comm, copies) == []


def test_what_is_outside_of_all_steps_is_in_none() -> None:
    outside = {"rank": 0, "device": "0", "class": "comm_broadcast"}
    rows = reduced(
        "transfer_steps", steps(1), rows_of("communication", outside), rows_of("memcpy_steps")
    )
    assert [tuple(row.values())[:4] for row in rows] == [
        ("comm", "comm_broadcast", 0.0, 0.0),
        ("comm", "(all)", 0.0, 0.0),
        ("memcpy", "(all)", 0.0, 0.0),
    ]


# -- attention_layers ------------------------------------------------------------------------------


def module(rank: int, path: str, parent: str, layer: int | None, total_ns: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "device": "0",
        "phase": "forward",
        "layer": layer,
        "module_path": path,
        "parent_path": parent,
        "total_wall_ns": total_ns,
    }


@pytest.mark.parametrize(
    ("attention", "inside", "norm"),
    [
        ("self_attn", ".q_proj", "post_attention_layernorm"),
        ("attention", ".attention_dropout", "attention_norm"),
        ("LlamaAttention_0", "/Linear_3", "LlamaRMSNorm_1"),
        ("attn", ".c_attn", "ln_attn"),
    ],
)
def test_norms_and_what_is_inside_of_attention_are_no_attention_of_their_own(
    attention: str, inside: str, norm: str
) -> None:
    """Two layers of 12 and 8 ns per step: 10 ns; with their norms and parts it would be less."""
    join = inside[0]
    rows = []
    for layer, total_ns in ((0, 24), (1, 16)):
        around = f"model{join}layers.{layer}"
        rows += [
            module(0, around, "model", layer, 50),
            module(0, f"{around}{join}{attention}", "model.layers.*", layer, total_ns),
            module(0, f"{around}{join}{attention}{inside}", "model.layers.*.attn", layer, 6),
            module(0, f"{around}{join}{norm}", "model.layers.*", layer, 2),
        ]
    rows.append(module(0, f"model{join}attention_mask", "model", None, 100))
    (found,) = reduced("attention_layers", rows_of("modules", *rows), steps(2))
    assert tuple(found.values()) == ("forward", 10.0, 2, 1)


def test_attention_of_both_kinds_in_one_layer_is_one_time() -> None:
    rows = [
        module(0, "decoder.block.0.SelfAttention", "decoder.block.*", 0, 30),
        module(0, "decoder.block.0.EncDecAttention", "decoder.block.*", 0, 10),
        module(0, "encoder.block.0.SelfAttention", "encoder.block.*", 0, 20),
    ]
    (found,) = reduced("attention_layers", rows_of("modules", *rows), steps(1))
    assert (found["step_wall_ns"], found["layer_count"]) == (30.0, 2)


def test_attention_is_over_the_steps_of_each_device() -> None:
    rows = [module(rank, "layers.0.attn", "layers.*", 0, 12) for rank in (0, 1, 2)]
    # Rank 2 marks no steps.
    (found,) = reduced("attention_layers", rows_of("modules", *rows), steps(1, 3, 0))
    assert (found["step_wall_ns"], found["device_count"]) == ((12 + 4) / 2, 2)


# -- gemm_totals -----------------------------------------------------------------------------------


def test_the_share_of_peak_is_that_of_all_time_not_a_mean_of_shares() -> None:
    """16 operations in 1 ns and in 4 ns, peak 16 in a ns: 40 %, not the mean of 100 and 25."""
    size = {"m": 2, "n": 2, "k": 2, "batch": 1, "dtype": "bf16", "call_count": 1, "flops": 16}
    rows = [
        size | {"rank": rank, "kernel_ns": time_ns, "peak_flop_per_s": 16e9, "peak_pct": share}
        for rank, time_ns, share in ((0, 1, 100.0), (1, 4, 25.0))
    ]
    without_size = {"rank": 0, "kernel_ns": 99, "call_count": 1, "reason": "no shapes"}
    told = rows_of("gemms", *rows, without_size)
    (found,) = reduced("gemm_totals", told)
    assert (found["call_count"], found["kernel_ns"], found["mean_ns"]) == (2, 5, 2.5)
    assert found["peak_pct"] == pytest.approx(40)
    # The two figures of a row tell the same: 16 operations in mean_ns, of the peak.
    assert found["peak_pct"] == pytest.approx(100 * 16 / found["mean_ns"] / 16)


def test_a_product_on_a_device_whose_peak_is_not_known_has_no_share() -> None:
    size = {"m": 2, "n": 2, "k": 2, "batch": 1, "dtype": "bf16", "call_count": 1, "flops": 16}
    rows = [
        size | {"rank": 0, "kernel_ns": 1, "peak_flop_per_s": 16e9},
        size | {"rank": 1, "kernel_ns": 1},
    ]
    (found,) = reduced("gemm_totals", rows_of("gemms", *rows))
    assert (found["peak_pct"], found["flop_per_s"]) == (None, 16e9)


# -- serving ---------------------------------------------------------------------------------------


def test_shares_of_a_phase_add_up_also_where_ranks_do_different_work() -> None:
    """Rank 1 has no all-reduce: it counts as 0 there, or the shares would be more than 100."""
    base = {"device": "0", "phase": "decode", "step_count": 2}
    rows = [
        base | {"rank": rank, "task_group": group, "task": task} | numbers(time_ns, share)
        for rank, group, task, time_ns, share in (
            (0, "computation", "GEMM", 30, 60.0),
            (0, "communication", "all-reduce", 20, 40.0),
            (1, "computation", "GEMM", 10, 20.0),
            (1, "rest", "idle", 40, 80.0),
        )
    ]
    found = reduced("serving_module_steps", rows_of("serving_modules", *rows))
    assert [tuple(row.values())[1:] for row in found] == [
        ("computation", "(all)", 20.0, 40.0, 2),
        ("computation", "GEMM", 20.0, 40.0, 2),
        ("communication", "(all)", 10.0, 20.0, 2),
        ("communication", "all-reduce", 10.0, 20.0, 2),
        ("rest", "(all)", 20.0, 40.0, 2),
        ("rest", "idle", 20.0, 40.0, 2),
    ]


def numbers(time_ns: float, share_pct: float) -> dict[str, float]:
    return {"step_wall_ns": time_ns, "phase_pct": share_pct}


def test_without_marked_steps_there_are_shares_but_no_times() -> None:
    rows = [
        {"rank": 0, "device": "0", "phase": "decode", "task_group": "rest", "task": "idle"}
        | {"phase_pct": 100.0}
    ]
    found = reduced("serving_module_steps", rows_of("serving_modules", *rows))
    assert [(row["step_wall_ns"], row["phase_pct"]) for row in found] == [(None, 100.0)] * 2


def test_the_transformer_is_attention_and_ffn() -> None:
    base = {"device": "0", "phase": "prefill", "step_count": 1}
    rows = [
        base | {"rank": rank, "section": section, "step_span_ns": time_ns, "span_pct": share}
        for rank, section, time_ns, share in (
            (0, "before transformer", 10.0, 10.0),
            (0, "attention", 60.0, 60.0),
            (0, "ffn", 30.0, 30.0),
            (1, "attention", 20.0, 100.0),
        )
    ]
    found = reduced("serving_timeline_steps", rows_of("serving_timeline", *rows))
    assert [tuple(row.values())[1:] for row in found] == [
        ("before transformer", 5.0, 5.0, 2),
        ("transformer", 55.0, 95.0, 2),
        ("attention", 40.0, 80.0, 2),
        ("ffn", 15.0, 15.0, 2),
    ]
