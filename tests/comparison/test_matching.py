"""Modules and work that have other names on the other side, and numbers that add up."""

import random
from fractions import Fraction

import pytest
from every_trace import MADE_UP, REPO

import tracekit
from tracekit.comparison import places
from tracekit.comparison.cells import Cell, ModuleNode, Side
from tracekit.comparison.effects import effects_of
from tracekit.comparison.matching import Pair, match_sides
from tracekit.comparison.places import Alignment, align_modules
from tracekit.comparison.tree import apportion
from tracekit.errors import UsageError


def _modules(*paths, **classes):
    known = set(paths)
    found = {}
    for path in paths:
        parts = path.split(".")
        around = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
        parent = next((one for one in around if one in known), None)
        found[path] = ModuleNode(path, parent, classes.get(parts[-1]))
    return found


def _renamed(base, new):
    return {path: to for path, to in align_modules(base, new).base_of.items() if path != to}


@pytest.mark.parametrize(
    ("base", "new", "classes", "renamed"),
    [
        pytest.param(
            "model model.layers.* model.layers.*.mlp",
            "module module.model module.model.layers.* module.model.layers.*._orig_mod.mlp",
            {},
            {
                "module.model": "model",
                "module.model.layers.*": "model.layers.*",
                "module.model.layers.*._orig_mod.mlp": "model.layers.*.mlp",
            },
            id="wrappers",
        ),
        pytest.param(
            "model model.layers.* model.layers.*.attn model.layers.*.mlp",
            "model model.blocks.* model.blocks.*.attn model.blocks.*.mlp",
            {},
            {
                "model.blocks.*": "model.layers.*",
                "model.blocks.*.attn": "model.layers.*.attn",
                "model.blocks.*.mlp": "model.layers.*.mlp",
            },
            id="layers of another name",
        ),
        pytest.param(
            "model model.ln_f model.head",
            "model model.norm model.lm_head",
            {"ln_f": "RMSNorm", "norm": "RMSNorm", "head": "Linear", "lm_head": "Linear"},
            {"model.norm": "model.ln_f", "model.lm_head": "model.head"},
            id="one class",
        ),
    ],
)
def test_modules_of_another_name(base, new, classes, renamed):
    assert _renamed(_modules(*base.split(), **classes), _modules(*new.split(), **classes)) == (
        renamed
    )


def test_a_module_without_a_counterpart_is_new():
    base = _modules("model", "model.mlp", mlp="MLP")
    new = _modules("model", "model.mlp", "model.router", mlp="MLP", router="Router")
    assert "model.router" not in align_modules(base, new).base_of


def test_modules_may_be_deep():
    paths = [".".join(["x"] * depth) for depth in range(1, 1201)]
    base = _modules(*paths)
    new = _modules(*("y" + path[1:] for path in paths))
    assert len(align_modules(base, base).base_of) == len(paths)
    assert len(_renamed(base, new)) == len(paths)


def _cell(module, op, class_name, name, kernel_ns):
    cell = Cell("compute", class_name, "forward", module, op, None, name, 1, kernel_ns, kernel_ns)
    cell.samples = {0: kernel_ns}
    return cell


def _side(*cells):
    modules = _modules("model", "model.mlp", "model.norm")
    total = sum(cell.wall_ns for cell in cells)
    return Side("x", "window", cells, modules, 1, 1, 1, ["window"], [1], 0, total)


def _matched(base, new):
    alignment = Alignment({path: path for path in base.modules}, {})
    pairs = match_sides(base, new, alignment)
    for side, cells in (
        (base, [c for p in pairs for c in p.base]),
        (new, [c for p in pairs for c in p.new]),
    ):
        assert sorted(map(id, cells)) == sorted(map(id, side.cells))
    return sorted((pair.match, pair.module, len(pair.base), len(pair.new)) for pair in pairs)


def test_three_kernels_became_one():
    base = _side(
        _cell("model.norm", "pow", "elementwise", "a", 10),
        _cell("model.norm", "mean", "reduction", "b", 10),
        _cell("model.norm", "mul", "layout", "c", 10),
    )
    new = _side(_cell("model.norm", "fused", "triton_fused", "d", 25))
    assert _matched(base, new) == [("place", "model.norm", 3, 1)]


def test_an_op_that_runs_by_other_kernels_is_one_row():
    """The library chose another kernel, so the number of calls is unchanged."""
    base = _side(
        _cell("model.norm", "norm_backward", "norm", "wide", 52),
        _cell("model.norm", "norm_backward", "norm", "narrow", 1),
    )
    new = _side(
        _cell("model.norm", "norm_backward", "norm", "tiny", 9),
        _cell("model.norm", "norm_backward", "norm", "narrow", 44),
    )
    for cell in (*base.cells, *new.cells):
        cell.shape = f"[{cell.kernel_ns},1,1]"  # the grid of the kernel
    assert _matched(base, new) == [("op", "model.norm", 2, 2)]


def test_new_work_of_another_module_is_not_added_to_an_op():
    """The add became shorter by about the time of the fill in a submodule, by chance."""
    base = _side(_cell("model", "add", "elementwise", "wide", 850))
    new = _side(
        _cell("model", "add", "elementwise", "wider", 690),
        _cell("model.mlp", "fill_", "elementwise", "fill", 110),
    )
    assert _matched(base, new) == [("new", "model.mlp", 0, 1), ("op", "model", 1, 1)]


def test_moved_work_is_matched_near_its_module():
    base = _side(_cell("model.mlp", "mm", "gemm", "a", 10))
    new = _side(_cell("model.norm", "mm", "gemm", "a", 10))
    assert _matched(base, new) == [("same", "model", 1, 1)]


def test_work_without_a_counterpart_is_new_or_gone():
    base = _side(_cell("model.mlp", "mm", "gemm", "a", 1_000))
    new = _side(_cell("model.norm", "copy", "layout", "b", 10))
    assert _matched(base, new) == [("gone", "model.mlp", 1, 0), ("new", "model.norm", 0, 1)]


def test_shares_add_up_and_are_next_to_the_exact_values():
    draw = random.Random(3)
    for _ in range(200):
        values = [Fraction(draw.randrange(10_000), 7) for _ in range(draw.randrange(1, 9))]
        whole = sum(values)
        total = round(whole)
        shares = apportion(total, values)
        assert sum(shares) == total
        assert all(abs(share - value) < 1 for share, value in zip(shares, values, strict=True))
    assert apportion(0, []) == []
    assert apportion(1, [Fraction(0), Fraction(1, 2), Fraction(1, 2)]) == [0, 1, 0]


@pytest.mark.nightly("compares a complete run")
def test_runs_of_several_sides_are_repeats(opened):
    run = opened(REPO / "sample_traces" / "pretrain_Naive")
    found = tracekit.compare([run, run], [run, run])
    assert (found.delta_ns, found.base.run_count, found.base.unit_count) == (0, 2, 8)
    assert [one.name for one in found.measures] == ["unprofiled step", "step", "busy time", "run"]


@pytest.mark.nightly("compares a complete run")
@pytest.mark.parametrize(("per", "factor"), [("layer", 4), ("token", 350)])
def test_the_unit_of_a_comparison(opened, per, factor):
    run = opened(REPO / "sample_traces" / "pretrain_Naive")
    found = tracekit.compare(run, run, per=per)
    assert found.root.base_sum_ns == 721_882_751
    assert found.base.unit_count == 4 * factor


def test_an_unknown_unit_is_rejected(opened):
    run = opened(MADE_UP)
    with pytest.raises(UsageError, match="the number of requests"):
        tracekit.compare(run, run, per="request")


def test_statements_on_both_sides(cli):
    statement = "SELECT (SELECT count(*) FROM base.event) a, count(*) b FROM new.event"
    done = cli("compare", MADE_UP, MADE_UP, "--format", "csv", "--sql", statement)
    assert (done.exit_code, done.stdout) == (0, "a,b\n39,39\n")
    assert cli("compare", MADE_UP, MADE_UP, "--sql", "COPY (SELECT 1) TO 'x.csv'").exit_code == 5


DIMS, OTHER_DIMS = "[[4,8],[8,8]]", "[[8,8],[8,8]]"
GRID, OTHER_GRID = "[64,1,1]", "[128,1,1]"


def _shaped(shape, name, kernel_ns):
    cell = Cell("compute", "gemm", "forward", "mlp", "aten::mm", shape, name, 2)
    cell.kernel_ns = cell.wall_ns = kernel_ns
    return cell


@pytest.mark.parametrize(
    ("shapes", "is_same_kernel", "match", "effect"),
    [
        ((DIMS, OTHER_DIMS), True, "name", "by_shape_ns"),
        ((DIMS, OTHER_DIMS), False, "op", "by_shape_ns"),
        ((GRID, OTHER_GRID), True, "name", "by_shape_ns"),
        # The grid of another kernel says nothing about shapes.
        ((GRID, OTHER_GRID), False, "op", "by_kernel_ns"),
        # One side has the op's arguments, and the other only a grid, or neither.
        ((GRID, DIMS), True, "name", "by_cost_ns"),
        ((GRID, DIMS), False, "op", "by_kernel_ns"),
        ((GRID, None), True, "name", "by_cost_ns"),
        ((None, DIMS), False, "op", "by_kernel_ns"),
        ((None, None), True, "same", "by_cost_ns"),
    ],
)
def test_why_matched_work_takes_longer(shapes, is_same_kernel, match, effect):
    base = _shaped(shapes[0], "kernel", 1000)
    new = _shaped(shapes[1], "kernel" if is_same_kernel else "another", 1300)
    found = effects_of(Pair("compute", "forward", "mlp", [base], [new], match), (1, 1), None)
    assert {name: ns for name, ns in found.items() if ns} == {effect: Fraction(300)}


class _Counted(str):
    """A class name of a cell that counts how often it is looked at."""

    looks = 0

    def __hash__(self):
        _Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other):
        return super().__eq__(other)


def _side_of(nodes, prefix, ns):
    cells = []
    for number, path in enumerate(nodes):
        name = f"{prefix} {number}"
        cell = Cell("compute", _Counted("gemm"), "forward", path, name, None, name, 1)
        cell.kernel_ns = cell.wall_ns = ns(number)
        cells.append(cell)
    modules = {path: ModuleNode(path, parent, prefix) for path, parent in nodes.items()}
    total = sum(cell.wall_ns for cell in cells)
    return Side(prefix, "window", cells, modules, 1, 1, 1, ["window"], [1], 0, total)


def _siblings(count, prefix):
    """Return sibling modules, each with a child of a common name and a child of a unique name."""
    nodes = {"top": None}
    for number in range(count):
        one = f"top.{prefix}{number}"
        nodes[one] = "top"
        nodes |= dict.fromkeys((f"{one}.a", f"{one}.b", f"{one}.{prefix}{number}"), one)
    return nodes


def _nested(count, prefix):
    paths = [f"top/{prefix}{number}" for number in range(count)]
    return dict(zip(paths, [None, *paths], strict=False))


def _one_module(count, prefix):
    return {f"{prefix}{number}": None for number in range(count)}


@pytest.mark.parametrize("shape", [_siblings, _nested, _one_module])
def test_matching_looks_at_each_a_few_times(shape, monkeypatch):
    looks = []
    for count in (400, 1600):
        compared = 0
        candidates = places._candidates

        def counted(*args, candidates=candidates):
            nonlocal compared
            found = candidates(*args)
            compared += len(found)
            return found

        monkeypatch.setattr(places, "_candidates", counted)
        base = _side_of(shape(count, "left"), "left", lambda number: 1 << (number % 40))
        new = _side_of(shape(count, "right"), "right", lambda number: 3 << (number % 40))
        _Counted.looks = 0
        pairs = match_sides(base, new, align_modules(base.modules, new.modules))
        monkeypatch.undo()
        matched = [cell for pair in pairs for cell in (*pair.base, *pair.new)]
        assert sorted(map(id, matched)) == sorted(map(id, (*base.cells, *new.cells)))
        looks.append(_Counted.looks + compared)
    # Sixteen times were quadratic.
    assert looks[1] < 6 * looks[0]
