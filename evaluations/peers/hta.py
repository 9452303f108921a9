"""Figures that HolisticTraceAnalysis' tests expect for its bundled traces."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from made_parts import table

import tracekit

_ROUNDED = "(ts_ns + 999) // 1000 AS start_us, (ts_ns + dur_ns) // 1000 AS end_us"
_ROUNDING = "by default, HTA rounds starts up and ends down to whole µs"
_LAST_STEP = "HTA omits the last step"


class Figure(NamedTuple):
    """A figure that a test of HTA expects.

    `ours` and `theirs` are SQL on the trace, with tracekit's and (if different) HTA's definition.
    `why` explains the difference.
    """

    trace: str
    name: str
    expected: float
    ours: str
    theirs: str = ""
    why: str = ""


_MTIA = "mtia_trace_single_rank"
_NS = "ns_resolution_trace"
_QUEUE = "negative_queue_length_values_check"
_ADD = "critical_path/simple_add"
_MEMORY = "memory_analysis"

_KERNELS = "SELECT sum(dur_ns) / 1e3 FROM device_events WHERE kind = '{}'"
_ROUNDED_KERNELS = (
    f"WITH rounded AS (SELECT {_ROUNDED} FROM device_events WHERE kind = '{{}}' {{}}) "
    "SELECT sum(end_us - start_us) FROM rounded"
)
_IN_STEP = (
    "SELECT count(DISTINCT e.name) FROM event AS e, event AS s WHERE s.name = 'ProfilerStep#1010' "
    "AND e.ts_ns BETWEEN s.ts_ns AND s.ts_ns + s.dur_ns AND e.category IN ({})"
)
_HOST = "'cpu_op', 'user_annotation', 'cuda_runtime'"
_SPANNED = (
    "SELECT count(*) FROM device_events AS d, event AS s WHERE s.category = 'gpu_user_annotation' "
    "AND s.name = 'Optimizer.step#SGD.step' AND s.tid = d.stream AND d.ts_ns >= s.ts_ns "
    "AND d.ts_ns + d.dur_ns <= s.ts_ns + s.dur_ns"
)
_HELD = (
    "WITH moment AS (SELECT max(place) AS place FROM memory_event WHERE ts_ns = "
    "(SELECT DISTINCT ts_ns FROM memory_event ORDER BY ts_ns OFFSET 743 LIMIT 1)) "
    "SELECT sum(bytes) FROM memory_event AS e, moment AS m WHERE e.place <= m.place AND "
    "coalesce(e.end_place, m.place + 1) > m.place AND bytes > 0 AND category = '{}'"
)
_SIZES = {
    "parameters": 102_440_608,
    "optimizer state": 102_228_128,
    "inputs": 19_395_584,
    "activations": 2_618_160_128,
    "gradients": 58_417_152,
    "autograd detail": 41_811_968,
    "unknown": 25_494_440,
}

FIGURES = (
    Figure(
        _MTIA,
        "kernel breakdown: computation, µs",
        7_305_597,
        _KERNELS.format("compute"),
        _ROUNDED_KERNELS.format("compute", ""),
        f"{_ROUNDING}: 3,466 µs are lost over 3,453 kernels",
    ),
    Figure(
        _MTIA,
        "kernel breakdown: memory, µs",
        400_892,
        _KERNELS.format("memcpy"),
        _ROUNDED_KERNELS.format("memcpy", "AND stream <> 801"),
        f"{_ROUNDING}, and omits stream 801, which has 137 copies",
    ),
    Figure(
        _MTIA,
        "idle time of stream 1: host wait, µs",
        417_937,
        "SELECT idle_ns / 1e3 FROM hta_idle() WHERE stream = 1 AND category = 'host_wait'",
        f"WITH rounded AS (SELECT {_ROUNDED}, event_id FROM device_events WHERE stream = 1), "
        "gap AS (SELECT event_id, start_us, lag(end_us) OVER (ORDER BY start_us, event_id) AS "
        "end_us FROM rounded) SELECT sum(start_us - end_us) FROM gap INNER JOIN launch_link USING "
        "(event_id) WHERE (launch_ts_ns + 999) // 1000 > end_us",
        _ROUNDING,
    ),
    Figure(
        _MTIA,
        "launch 423: duration of the call, µs",
        435.2,
        "SELECT dur_ns / 1e3 FROM event WHERE correlation = 423 AND category = 'mtia_runtime'",
    ),
    Figure(
        _MTIA,
        "launch 423: duration of the kernel, µs",
        124.768,
        "SELECT dur_ns / 1e3 FROM device_events WHERE correlation = 423",
    ),
    Figure(
        _MTIA,
        "launch 423: delay, µs",
        0,
        "SELECT launch_delay_ns / 1e3 FROM attributed_events WHERE correlation = 423",
        "SELECT greatest(launch_delay_ns, 0) FROM attributed_events WHERE correlation = 423",
        "the kernel started before its launch call returned; HTA then reports 0",
    ),
    Figure(
        _MTIA,
        "calls of `aten::mul` that launched `customized_fba_mul_const-dtype_Float`",
        822,
        "SELECT op_count FROM op_kernels(p_op := 'aten::mul') "
        "WHERE name = 'customized_fba_mul_const-dtype_Float'",
    ),
    Figure(
        _MTIA,
        "maximum queue length of stream 102",
        1,
        "SELECT max_length FROM queue_length() WHERE stream = 102",
    ),
    Figure(
        _NS,
        "kernels",
        4_876,
        "SELECT count(*) FROM device_events",
        "SELECT count(*) FROM attribution WHERE step < 105",
        _LAST_STEP,
    ),
    Figure(
        _NS,
        "kernels of `Optimizer.step#SGD.step`",
        27,
        _SPANNED,
        f"{_SPANNED} AND s.ts_ns < (SELECT ts_ns FROM event WHERE name = 'ProfilerStep#105')",
        "HTA omits the spans on the device that begin in the last step of the host",
    ),
    Figure(
        _NS,
        "user annotations of the device",
        3,
        "SELECT count(DISTINCT name) FROM event WHERE category = 'gpu_user_annotation'",
    ),
    Figure(
        _NS,
        "user annotations of the host",
        12,
        "SELECT count(DISTINCT name) FROM event WHERE category = 'user_annotation'",
        "SELECT count(DISTINCT name) FROM event WHERE category = 'user_annotation' "
        "AND name <> 'ProfilerStep#105'",
        _LAST_STEP,
    ),
    Figure(_QUEUE, "streams with a queue", 6, "SELECT count(*) FROM queue_length()"),
    Figure(
        _QUEUE,
        "queue lengths below 0",
        0,
        "SELECT count(*) FROM queue_over_time() WHERE mean_length < 0",
    ),
    Figure(
        _QUEUE,
        "kinds of copies and memsets",
        4,
        "SELECT count(DISTINCT direction) FROM memcpy()",
    ),
    Figure(
        "cupti_profiler",
        "ranges with counters",
        77,
        "SELECT sum(kernel_count) FROM counters_by_op() "
        "WHERE counter = 'smsp__sass_thread_inst_executed_op_fadd_pred_on.sum'",
    ),
    Figure(
        "cupti_profiler",
        "`fft2d_r2c_32x32` of `aten::cudnn_convolution` in `aten::conv2d`: `fadd` of a kernel",
        86_114_304,
        "SELECT max_value FROM counters_by_op() WHERE top_op = 'aten::conv2d' "
        "AND op = 'aten::cudnn_convolution' AND kernel LIKE '%fft2d_r2c_32x32%5u%' "
        "AND counter = 'smsp__sass_thread_inst_executed_op_fadd_pred_on.sum'",
    ),
    Figure(
        "nccl_parser_config",
        "communication kernels",
        21,
        "SELECT count(*) FROM device_events WHERE kind = 'comm'",
    ),
    Figure(
        "trace_compare/base",
        "distinct names of host events in step 1010",
        6,
        _IN_STEP.format(_HOST),
    ),
    Figure(
        "trace_compare/test",
        "distinct names of host events in step 1010",
        8,
        _IN_STEP.format(_HOST),
    ),
    Figure(
        "df_index_resolver",
        "sequences of three kernels or more under `aten::clone`",
        0,
        "SELECT count(*) FROM kernel_sequences(p_op := 'aten::clone', p_min_length := 3)",
    ),
    Figure(
        "rank_non_gpu",
        "streams with a queue",
        0,
        "SELECT count(*) FROM queue_length()",
    ),
    Figure(
        _ADD,
        "critical path: sum of the shares of all kinds, %",
        100,
        "SELECT 100.0 * sum(end_ns - start_ns) / (SELECT max(window_ns) FROM timeline()) "
        "FROM path_piece",
    ),
    *(
        Figure(_MEMORY, f"{name} in use at event 744, bytes", size, _HELD.format(name))
        for name, size in _SIZES.items()
    ),
)


def figures(clone: Path) -> str:
    """Return the table of figures for the traces in the clone.

    Raises:
        AssertionError: a figure is not equal, even with HTA's definition.
    """
    rows: list[tuple[object, ...]] = []
    for name in dict.fromkeys(figure.trace for figure in FIGURES):
        (path,) = sorted((clone / "tests" / "data" / name).glob("*.gz"))
        with closing(tracekit.open(path, cache=False)) as trace:
            for figure in (one for one in FIGURES if one.trace == name):
                ((ours,),) = trace.sql(figure.ours).rows
                is_equal = abs(ours - figure.expected) < 5e-3
                if figure.theirs:
                    ((theirs,),) = trace.sql(figure.theirs).rows
                    assert theirs == figure.expected, (figure, theirs)
                else:
                    assert is_equal, (figure, ours)
                remark = "equal" if is_equal else figure.why
                rows.append(
                    (f"`{name}`", figure.name, f"{figure.expected:,}", f"{ours:,.10g}", remark)
                )
    return table(("trace", "figure", "HTA's test expects", "tracekit", ""), rows)
