"""DeepSpeed's own Adam is used where it can really be compiled; else a note says why not."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("deepspeed")

from tracekit.collectors.training.engines import deepspeed as engine


class Builder:
    """Stands for one of DeepSpeed's builders."""

    name = "fused_adam"

    def __init__(self, *, compatible: bool = True, error: Exception | None = None) -> None:
        self._compatible = compatible
        self._error = error

    def __call__(self) -> Builder:
        return self

    def is_compatible(self, *, verbose: bool) -> bool:
        assert not verbose
        return self._compatible

    def load(self, *, verbose: bool) -> object:
        assert not verbose
        if self._error is not None:
            raise self._error
        return object()


@pytest.mark.parametrize(
    ("home", "builder", "reason"),
    [
        ("/cuda", Builder(), None),
        (None, Builder(), "no CUDA toolkit"),
        ("/cuda", Builder(compatible=False), "it takes this machine for none that it runs on"),
        (
            "/cuda",
            Builder(error=RuntimeError("Error building extension 'fused_adam'\nnvcc: fatal")),
            "RuntimeError: Error building extension 'fused_adam'",
        ),
    ],
)
def test_what_cannot_be_compiled_is_noted(
    home: str | None, builder: Builder, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import deepspeed.ops.op_builder as builders
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "CUDA_HOME", home)
    monkeypatch.setattr(builders, "FusedAdamBuilder", builder)
    notes: list[Any] = []
    assert engine._can_build(False, notes) is (reason is None)
    wanted = f"DeepSpeed cannot compile its fused_adam here ({reason}), so torch's AdamW runs"
    assert notes == ([] if reason is None else [wanted])
