"""Which work of a backward pass is recomputation, and which is to be derived once more."""

from __future__ import annotations

from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, span

NUMBER, THREAD = "Sequence number", "Fwd thread id"


def op(name: str, start: float, end: float, number: int | None = None) -> Event:
    """An op; with grad mode on it has a number."""
    args = {} if number is None else {NUMBER: number, THREAD: 0}
    return span("cpu_op", name, start, end, **args)


def node(name: str, start: float, end: float, number: int) -> list[Event]:
    """A node of autograd, and the engine's call of it."""
    args = {NUMBER: number, THREAD: 1}
    around = f"autograd::engine::evaluate_function: {name}"
    return [
        span("cpu_op", around, start, end, **args),
        span("cpu_op", name, start + 1, end - 1, **args),
    ]


def module(name: str, start: float, end: float) -> Event:
    return span("python_function", f"nn.Module: {name}", start, end)


CASES = Cases()
asked = CASES.fixture()


def placed(asked: AskedByRank, rank: int) -> list[tuple[str, str, str | None]]:
    """Name, phase and module (or row) of each op that worked, in the order of their starts."""
    return asked.table(
        rank,
        "(SELECT e.trace_id, e.ts_ns, e.name, e.phase, coalesce(m.path, e.row_name) AS place"
        " FROM attributed_events AS e"
        " LEFT JOIN module AS m ON e.trace_id = m.trace_id AND e.module_id = m.module_id"
        " WHERE e.piece = 0 AND e.name NOT LIKE '%Backward%')",
        "name, phase, place",
        "ts_ns",
    )


FORWARD = [module("Linear_0", 0, 30), op("aten::linear", 1, 20, 1)]


DERIVED_AGAIN = CASES.add(
    [
        *FORWARD,
        *node("MmBackward0", 100, 150, 1),
        op("aten::t", 110, 120, 2),
        op("aten::mm", 121, 140, 3),
        op("aten::norm", 160, 170, 4),
        *node("NormBackward0", 200, 220, 4),
        op("aten::div", 205, 210),
        # The derivative of aten::mm above, so work of the same module.
        *node("MmBackward0", 230, 280, 3),
        op("aten::mm", 240, 270),
    ]
)


def test_what_is_to_be_derived_once_more_is_backward(asked: AskedByRank) -> None:
    """`torch.autograd.grad(y, x, create_graph=True)`, and the derivative of what it gave."""
    assert placed(asked, DERIVED_AGAIN) == [
        ("aten::linear", "forward", "Linear_0"),
        ("aten::t", "backward", "Linear_0"),
        ("aten::mm", "backward", "Linear_0"),
        ("aten::norm", "forward", "(loss)"),
        ("aten::div", "backward", "(loss)"),
        ("aten::mm", "backward", "Linear_0"),
    ]


THIRD_DERIVATIVE = CASES.add(
    [
        *FORWARD,
        *node("MmBackward0", 100, 150, 1),
        op("aten::mm", 121, 140, 3),
        *node("MmBackward0", 200, 250, 3),
        op("aten::mm", 221, 240, 5),
        *node("MmBackward0", 300, 350, 5),
        op("aten::mm", 321, 340),
    ]
)


def test_a_third_derivative_leads_to_the_module_too(asked: AskedByRank) -> None:
    assert [row[1:] for row in placed(asked, THIRD_DERIVATIVE)] == [
        ("forward", "Linear_0"),
        *[("backward", "Linear_0")] * 3,
    ]


def derivative(order: int) -> list[Event]:
    start = 100 * order
    return [
        *node("MmBackward0", start, start + 50, 2 * order - 1),
        op("aten::mm", start + 21, start + 40, 2 * order + 1),
    ]


HIGH_ORDER = CASES.add(
    [*FORWARD, *(event for order in range(1, 13) for event in derivative(order))]
)


def test_derivatives_of_very_high_order_are_not_followed(asked: AskedByRank) -> None:
    """To follow each of a long chain takes the square of its length."""
    rows = placed(asked, HIGH_ORDER)[1:]
    assert [row[1:] for row in rows[:8]] == [("backward", "Linear_0")] * 8
    assert {row[2] for row in rows[8:]} == {"(loss)"}


RECOMPUTED = CASES.add(
    [
        *FORWARD,
        *node("MmBackward0", 100, 150, 1),
        op("aten::linear", 110, 120, 2),
        op("aten::mm", 121, 140),
    ]
)


def test_a_node_computes_behind_what_it_recomputes(asked: AskedByRank) -> None:
    """`checkpoint(use_reentrant=False)` runs forward again where a saved tensor is asked for."""
    assert [row[:2] for row in placed(asked, RECOMPUTED)[1:]] == [
        ("aten::linear", "recompute"),
        ("aten::mm", "backward"),
    ]


REENTRANT = CASES.add(
    [
        *FORWARD,
        *node("CheckpointFunctionBackward", 100, 200, 1),
        op("aten::linear", 110, 120, 2),
        *node("MmBackward0", 130, 190, 2),
        op("aten::mm", 140, 180),
    ]
)


def test_a_backward_pass_inside_of_a_node_is_of_what_it_recomputed(asked: AskedByRank) -> None:
    """`checkpoint(use_reentrant=True)`, here as the only node."""
    assert [row[:2] for row in placed(asked, REENTRANT)[1:]] == [
        ("aten::linear", "recompute"),
        ("aten::mm", "backward"),
    ]


CALLED_AGAIN = CASES.add(
    [
        *FORWARD,
        *node("MmBackward0", 100, 150, 1),
        module("Linear_0", 109, 121),
        op("aten::linear", 110, 120, 2),
        op("aten::mm", 125, 140, 3),
    ]
)


def test_a_module_that_is_called_in_a_pass_with_a_derivative_runs_again(asked: AskedByRank) -> None:
    assert [row[:2] for row in placed(asked, CALLED_AGAIN)[1:]] == [
        ("aten::linear", "recompute"),
        ("aten::mm", "backward"),
    ]


OWN = [*node("FlashBackward", 200, 250, 2), op("aten::linear", 210, 220, 9)]
BEFORE = [*FORWARD, op("aten::flash", 21, 25, 2), *node("MmBackward0", 100, 150, 3)]
OWN_NODES = {
    CASES.add([*BEFORE, op("aten::mm", 110, 120), *OWN]): "recompute",
    CASES.add([*BEFORE, op("aten::mm", 110, 120, 8), *OWN]): "backward",
    CASES.add(
        [*BEFORE[:2], *OWN, *node("MmBackward0", 300, 350, 3), op("aten::mm", 310, 320, 10)]
    ): "backward",
}


def test_a_node_of_the_programs_own_is_of_the_pass_that_it_is_in(asked: AskedByRank) -> None:
    """Behind what is recomputed, its kernels may be none of torch's: then it has no last op."""
    for rank, phase in OWN_NODES.items():
        rows = placed(asked, rank)[1:]
        assert next(row[1] for row in rows if row[0] == "aten::linear") == phase


ON_GRADIENTS = CASES.add(
    [
        *FORWARD,
        *node("MmBackward0", 100, 150, 1),
        op("aten::mm", 121, 140, 3),
        op("aten::ones_like", 160, 170),
        op("aten::mul", 180, 190, 4),
        *node("MulBackward0", 200, 220, 4),
        op("aten::mul", 205, 210),
    ]
)


def test_work_on_gradients_that_are_to_be_derived_is_no_optimizer(asked: AskedByRank) -> None:
    """As `torch.ones_like(gradient)` of a product of Hessian and vector, which has no number."""
    found = {name: phase for name, phase, _ in placed(asked, ON_GRADIENTS)}
    assert found["aten::ones_like"] == "forward"


FUNCTION_IN_BACKWARD = CASES.add(
    [
        op("aten::mm", 0, 10, 1),
        op("_AllToAll", 11, 20, 2),
        *node("_AllToAllBackward", 100, 150, 2),
        op("_AllToAll", 110, 140, 3),
        op("aten::copy_", 115, 130),
        *node("MmBackward0", 160, 190, 1),
        op("aten::mm", 165, 185),
    ]
)


def test_a_function_that_a_node_calls_is_no_recomputation(asked: AskedByRank) -> None:
    """A call of a Function has a number with grad mode off too."""
    phases = {phase for _, phase, _ in placed(asked, FUNCTION_IN_BACKWARD)}
    assert phases == {"forward", "backward"}


FUNCTION_AGAIN = CASES.add(
    [
        op("_Square", 0, 10, 1),
        op("_Relu", 11, 20, 2),
        *node("_ReluBackward", 100, 150, 2),
        op("_Square", 103, 110, 3),
        op("aten::mul", 104, 106),
        op("aten::detach", 107, 109),
        op("_Relu", 111, 120, 4),
        op("aten::clamp_min", 112, 118),
        op("aten::where", 130, 140),
        *node("_SquareBackward", 160, 190, 1),
        op("_Scale", 165, 170, 5),
        op("aten::detach", 166, 167),
        op("aten::div", 168, 169),
        op("aten::detach", 175, 180),
    ]
)


def test_functions_that_save_tensors_in_a_node_are_a_recomputation(asked: AskedByRank) -> None:
    """A checkpointed region may call nothing else; what a Function itself detaches says nothing."""
    phases = {name: phase for name, phase, _ in placed(asked, FUNCTION_AGAIN)}
    assert [phases[f"aten::{name}"] for name in ("mul", "clamp_min", "where", "div")] == [
        *("recompute", "recompute", "backward", "backward"),
    ]


GRADIENTS = CASES.add(
    [
        op("aten::mm", 0, 10, 1),
        *node("MmBackward0", 100, 150, 1),
        op("aten::mm", 110, 140),
        op("aten::div_", 160, 170, 2),
        span("user_annotation", "Optimizer.step#SGD.step", 200, 230),
        op("aten::_foreach_add_", 205, 220),
        op("aten::mm", 300, 310, 2),
        *node("MmBackward0", 400, 450, 2),
        span("user_annotation", "Optimizer.step#SGD.step", 500, 530),
        op("aten::_foreach_add_", 505, 520),
        op("aten::sub_", 540, 550, 3),
        op("aten::neg", 560, 570),
        span("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 600, 630),
        op("aten::stack", 605, 620),
    ]
)


def test_work_on_gradients_before_the_optimizer_is_no_forward(asked: AskedByRank) -> None:
    """It has the number of the next forward op, because grad mode is on."""
    found = placed(asked, GRADIENTS)
    assert ("aten::div_", "optimizer", "(optimizer)") in found
    assert [phase for name, phase, _ in found if name == "aten::mm"] == [
        *("forward", "backward", "forward"),
    ]
    # Behind the step a number still makes it forward, and what follows it likewise.
    assert {phase for name, phase, _ in found if name in {"aten::sub_", "aten::neg"}} == {"forward"}
