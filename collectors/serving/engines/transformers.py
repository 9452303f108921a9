"""`--engine transformers`: continuous batching in this process, on a GPU or a CPU."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import WorkloadError
from tracekit.manifest import Model
from tracekit.redaction import Redactor

from ...command_line import profiler_options
from ...machine import memory
from ...model import models
from ...run import environment
from ..embedded.continuous_batching import ContinuousBatching, engine_size
from ..embedded.load import EmbeddedLoad, not_begun
from ..embedded.steps import StepRecorder
from ..engine import Echo, EngineFacts
from ..plan import LoadPlan, LoadResult, Progress

if TYPE_CHECKING:
    from ...model.flash_attention import Backend


_PACKAGES = {"torch": "torch", "transformers": "transformers"}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_LOGGER = "ContinuousBatchingLogger"
_NOTE = (
    "CUDA graphs and asynchronous batching are off, because the profile needs ranges for "
    "modules and steps; the engine can be faster with them"
)


class TransformersEngine:
    def __init__(self, values: Mapping[str, Any], redactor: Redactor | None = None) -> None:
        del redactor  # this engine handles no secrets
        self._values = values
        self._model: Any = None
        self._logs = contextlib.ExitStack()

    def start(self, folder: Path, echo: Echo) -> EngineFacts:
        environment.require(_PACKAGES, "--engine transformers")
        # Must be set before torch is loaded; otherwise the profiler logs a message at every start.
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
        # With too few cores, threads that spin at barriers slow down working threads.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import torch
        import transformers

        self._logs.enter_context(_log_to(folder / "logs" / "engine.log"))
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        precision = self._values.get("precision") or "bf16"
        dtype = getattr(torch, _DTYPES[precision])
        name = self._values.get("model") or ("tiny" if device.type == "cpu" else "llama2-7b")
        config = models.model_config(name, self._values.get("layers"))
        attention = _attention(device, dtype, config)
        echo(f"creating {name} with random weights in {precision} on {device.type}")
        try:
            self._model = models.build(
                config,
                seed=self._values.get("seed") or 0,
                dtype=dtype,
                attention=attention.implementation,
                device=device,
            ).eval()
        except (RuntimeError, MemoryError) as error:
            if not memory.is_out_of_memory(error):
                raise
            raise WorkloadError(
                f"{name} does not fit into memory: {memory.out_of_memory_reason(error)}",
                hint="use fewer --layers or a smaller --model",
            ) from error
        total, _ = models.parameter_count(self._model)
        return EngineFacts(
            model=Model(
                name=models.display_name(name),
                model_class=type(self._model).__name__,
                parameter_count=total,
                trainable_parameter_count=0,
                layer_count=config.num_hidden_layers,
                config=config.to_dict(),
            ),
            vocabulary_size=config.vocab_size,
            max_token_count=getattr(config, "max_position_embeddings", None),
            precision=precision,
            attention_backend=attention.name,
            attention_reason=attention.reason,
            server={"engine": "transformers", "version": transformers.__version__},
        )

    def run(self, plan: LoadPlan, folder: Path, progress: Progress) -> LoadResult:
        size = engine_size(plan, self._values, self._model)
        try:
            engine = ContinuousBatching(self._model, size, StepRecorder())
        except (RuntimeError, MemoryError) as error:
            if not memory.is_out_of_memory(error):
                raise
            reason = memory.out_of_memory_reason(error)
            return not_begun(plan, f"the KV cache does not fit: {reason}")
        options = profiler_options(self._values)
        load = EmbeddedLoad(self._model, engine, plan, folder, progress, options)
        with engine:
            result = load.run()
        result.extra["engine"] = engine.description()
        if self._model.device.type == "cuda":
            result.notes.append(_NOTE)
        return result

    def close(self) -> None:
        self._model = None
        self._logs.close()


def _attention(device: Any, dtype: Any, config: Any) -> Backend:
    from ...model import flash_attention

    # Any length gives the same result: the package's requirements do not depend on it, and a batch
    # contains requests of different lengths.
    shape = flash_attention.attention_shape(config, 1)
    refusal = flash_attention.flash_package_problem(device, dtype, shape)
    if refusal is None:
        return flash_attention.package_backend()
    reason = f"{refusal}; requests in one batch need an attention mask"
    return flash_attention.Backend("sdpa", "torch SDPA", reason)


@contextlib.contextmanager
def _log_to(path: Path) -> Iterator[None]:
    logger = logging.getLogger(_LOGGER)
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        handler.close()


create = TransformersEngine
