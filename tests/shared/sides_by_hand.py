"""Sides of comparisons by hand: cells with a time in each step."""

from tracekit.comparison.cells import Cell, Side


def cell_of(part, class_name, module, steps_ns):
    cell = Cell(part, class_name, "forward", module, "aten::mm", None, None, len(steps_ns))
    cell.samples = dict(enumerate(steps_ns))
    cell.wall_ns = cell.kernel_ns = sum(steps_ns)
    return cell


def side_of(*cells, modules=None):
    count = len(cells[0].samples)
    names, total_ns = [f"step {n}" for n in range(count)], sum(cell.wall_ns for cell in cells)
    return Side("x", "step", [*cells], modules or {}, count, 1, 1, names, [1] * count, 0, total_ns)


def gemm_side(steps_ns):
    """Return steps of one device in which one gemm does all."""
    return side_of(cell_of("compute", "gemm", "mlp", steps_ns))
