"""Phases of training where nothing but kernels tells of them: by names and order."""

from __future__ import annotations

from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, call, kernel, span, work

CASES = Cases()
asked = CASES.fixture()

ADAM = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
SOFTMAX, GRADIENT = "cunn_SoftMaxForward<4, float>", "cunn_SoftMaxBackward<4, float>"
FLASH, FLASH_BACK = "flash_fwd_kernel", "flash_bwd_dq_dk_dv_loop_kernel"
GEMM = "nvjet_sm90_tst_64x24_64x16"
STEP = [
    *((GEMM, "forward"), (FLASH, "forward"), (GEMM, "forward"), (SOFTMAX, "forward")),
    *((GRADIENT, "backward"), (GEMM, "backward"), (FLASH, "recompute"), (FLASH_BACK, "backward")),
    *((GEMM, "backward"), (ADAM, "optimizer"), ("add", "optimizer"), (ADAM, "optimizer")),
]


def graphs(count: int, names: list[str]) -> list[Event]:
    """Replays of one graph, a kernel of 1 µs each 2 µs."""
    events = []
    for replay in range(count):
        start = 1000 * replay
        events.append(call(start, start + 5, replay + 1, "cudaGraphLaunch"))
        events += [
            kernel(name, start + 10 + 2 * place, start + 11 + 2 * place, replay + 1)
            for place, name in enumerate(names)
        ]
    return events


def launches(names: list[str]) -> list[Event]:
    return [
        event
        for place, name in enumerate(names)
        for event in work(10 * place, 10 * place + 4, 10 * place + 6, place + 1, name)
    ]


NAMES = [name for name, _ in STEP]
GRAPHS = CASES.add(graphs(3, NAMES))
KERNELS_ALONE = CASES.add(
    [kernel(name, 2 * place, 2 * place + 1, 0) for place, name in enumerate(NAMES * 2)]
)
LAUNCHES = CASES.add(launches(NAMES * 2))
# Of SGD no kernel is named; a graph is one step.
SGD = CASES.add(graphs(2, [GEMM, SOFTMAX, GRADIENT, GEMM, GRADIENT, "add"]))
SGD_LAUNCHED = CASES.add(launches([GEMM, SOFTMAX, GRADIENT, GEMM, GRADIENT, "add", GEMM, GRADIENT]))
INFERENCE = CASES.add(graphs(2, [GEMM, FLASH, GEMM]))
WITH_OPS = CASES.add(
    [*launches([GEMM, GRADIENT]), span("user_annotation", "tk/phase/prefill", 0, 100)]
)


def phases(asked: AskedByRank, rank: int) -> list[str]:
    joined = "attribution INNER JOIN device_events USING (trace_id, event_id, piece)"
    return [phase for (phase,) in asked.table(rank, joined, "phase", "ts_ns")]


def test_a_graph_of_a_whole_step_has_its_phases(asked: AskedByRank) -> None:
    expected = [phase for _, phase in STEP]
    assert phases(asked, GRAPHS) == expected * 3
    assert phases(asked, KERNELS_ALONE) == expected * 2
    assert phases(asked, LAUNCHES) == expected * 2


def test_without_an_optimizer_order_tells_within_a_graph_alone(asked: AskedByRank) -> None:
    step = ["forward", "forward", "backward", "backward", "backward", "other"]
    assert phases(asked, SGD) == step * 2
    # Between the two backward passes may be anything.
    told = ["forward", "forward", "backward", "other", "backward", "other", "other", "backward"]
    assert phases(asked, SGD_LAUNCHED) == told


def test_what_tells_nothing_of_training_is_as_before(asked: AskedByRank) -> None:
    assert phases(asked, INFERENCE) == ["forward"] * 6
    assert phases(asked, WITH_OPS) == ["prefill"] * 2
