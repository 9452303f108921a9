"""The traces that tests of every trace read, and their answers, computed once per file of tests."""

import os
from pathlib import Path

import pytest

from tracekit.errors import QueryError

REPO = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("TRACEKIT_PUBLIC_TRACES") or REPO.parent / "shared" / "traces")
RUNS = sorted(path for path in FOLDER.glob("*") if path.is_dir())
"""Folders of ranks: one store each."""
SAMPLES = sorted(
    path.parent
    for path in (REPO / "sample_traces").rglob("run.json")
    if path.parent.name != "h200_finetune_L"
)
"""The bundled runs except the 7B model; small traces test recordings of that GPU."""
MADE_UP = REPO / "docs" / "samples" / "made_up_step.json"
_ALSO_BUNDLED = {"cpu_llama_ckpt_module_ranges.json.gz", "cpu_llama_lora.json.gz"}
"""Public traces with identical copies in `tests/traces`."""
_LIKE_ANOTHER = {
    "cpu_llama_z3_rank0": "pretrain_R+Z3",
    "cpu_llama_z3_rank1": "pretrain_R+Z3",
    "hta_sampled_rank1_noflows": "hta_sampled_rank0_noflows",
    "kineto_v100_resnet_2021": "hta_resnet_v100_ns",
    "tl_h100_owlv2_large": "tl_h100_qwen",
    "tl_mi300_qwen": "tl_h100_qwen",
    "tl_mi300_sglang_prefill": "tl_b200_vllm_eager",
}
"""Public traces of the same kind of program and recording as another one of `PATHS`, by name: what
is exact of them is in tests/test_public_figures.py."""
if FOLDER.is_dir():
    _LIKE_ANOTHER["serve_transformers"] = "cpu_llama_serving_cb"
BUNDLED = [*SAMPLES, *sorted((REPO / "tests" / "traces").rglob("*.json.gz"))]
PATHS = [
    path
    for path in (*BUNDLED, *sorted(FOLDER.glob("*.json.gz")), *RUNS)
    if path.name.removesuffix(".json.gz") not in _LIKE_ANOTHER and path.name not in _ALSO_BUNDLED
]
"""One trace of each kind."""


def _id(path):
    return path.relative_to(path.parents[1]).as_posix().removesuffix(".json.gz")


_IN_GATE = {
    "cpu_llama_ckpt/rank0": "CPU",
    "cpu_llama_lora/rank0": "CPU",
    "llama2-7b_1_layer/rank0": "H200",
    "sample_traces/pretrain_R+Z3": "two ranks",
    "traces/hta_mi250_toy_train": "AMD",
    "traces/hta_sampled_rank0_noflows": "damaged: sampled, and its flows are lost",
    "traces/tl_mi300_sglang_decode_graph": "CUDA graph",
    "traces/tl_mi300_vllm_piecewise": "vLLM",
}
"""Traces for tests on every trace in `make test`, with the kind that each represents."""


def _marks(path):
    is_in_gate = _id(path) in _IN_GATE
    return [] if is_in_gate else [pytest.mark.nightly("not one of the eight traces of the gate")]


def _on(paths):
    return pytest.mark.parametrize(
        "path",
        [pytest.param(path, marks=_marks(path)) for path in paths],
        ids=[_id(path) for path in paths],
        # All tests of a module ask one trace before they ask the next one.
        scope="module",
    )


_ASKED_EVERYTHING = {
    *("pretrain_R+Z3", "serve_vllm", "cpu_llama_ckpt", "llama2-7b_1_layer"),
    *("deepseek_train_h800", "param_dlrm_8ranks", "tl_mi300_vllm_piecewise"),
}
on_every_trace = _on(PATHS)
on_some_traces = _on(
    [
        path
        for path in PATHS
        if {path.name.removesuffix(".json.gz"), path.parent.name} & _ASKED_EVERYTHING
    ]
)
"""Traces that represent a program or a way to record. All analyses take seconds per trace."""


class Answers:
    """Results of analyses of one trace; each runs once per set of parameters."""

    def __init__(self, trace):
        self.trace = trace
        self._known = {}
        self._others = {}

    def __call__(self, name, **params):
        """Return the result of an analysis.

        Raises:
            QueryError: the trace cannot support it.
        """
        if params:
            key = (name, repr(sorted(params.items())))
            if key not in self._others:
                self._others[key] = self.trace.query(name, **params)
            return self._others[key]
        if name not in self._known:
            try:
                self._known[name] = self.trace.query(name)
            except QueryError as error:
                self._known[name] = error
        found = self._known[name]
        if isinstance(found, QueryError):
            raise found
        return found
