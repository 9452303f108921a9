"""The tables of a comparison as its report names them, each with what it means."""

from __future__ import annotations

TABLES = {
    "comparison": (
        "The whole",
        (
            "One row: the time of a unit (per) on both sides, as the mean over its units and "
            "devices; the difference; the verdict of a rank test on the measurements that "
            "sample names; and how much of the device time of both sides has a counterpart."
        ),
    ),
    "comparison_noise": (
        "Is it more than noise?",
        (
            "A row is a measure: its medians, the difference of these with its interval, found "
            "by the bootstrap, and the verdict of a rank test. plain steps ran without the "
            "profiler."
        ),
    ),
    "comparison_effects": (
        "Why: adds up to the difference",
        (
            "new and gone: work that one side alone has. recompute: the same, of activation "
            "checkpointing. count: more or fewer calls, at what one took before. clock: all "
            "compute takes longer by one factor. cost: calls of the same kernels with the same "
            "shapes take longer. shape: other shapes. kernel: other kernels for the same work. "
            "overlap: less of it hides behind other work."
        ),
    ),
    "comparison_split": (
        "The difference, split until it adds up",
        ("A tree: the rows whose parent is a node add up to that node, to the nanosecond."),
    ),
    "comparison_work": (
        "Work that differs most",
        (
            "A row is work that was matched, in one place: by op, shape and name; then by op "
            "and shape, by op, by class, by place. match says how; new and gone have no "
            "counterpart."
        ),
    ),
    "comparison_modules": (
        "Modules of both sides",
        ("Which module of the one side is which of the other, and how that was found."),
    ),
    "comparison_latency": (
        "Latency of requests",
        (
            "A row is a percentile of a metric, as in tracekit query latency, with its interval "
            "over requests. Where that would reach the longest request there is none."
        ),
    ),
    "comparison_throughput": (
        "Throughput",
        (
            "Rates of the whole load, with intervals from blocks of answers that followed each "
            "other."
        ),
    ),
    "comparison_batches": (
        "Steps of the engine by their batches",
        (
            "Why the mean of the steps of a phase differs: other batches, batches that one side "
            "alone has, and the same batches that take longer; these add up to the difference."
        ),
    ),
    "comparison_setup": (
        "What differs in the setup",
        ("What is not alike in manifests, machines and health; weight says how much it matters."),
    ),
}
"""Title and definition by name, in the order in which they are read."""
