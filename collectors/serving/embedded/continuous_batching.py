"""Observes the steps of transformers' continuous batching.

Only undocumented methods show which tokens a step processes and when output is ready. tracekit
wraps these methods on the instance, after checking that all exist.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from tracekit.errors import UsageError, WorkloadError

from ..plan import LoadPlan
from .steps import Batch, Share, StepRecorder

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.01
# Disables the end-of-sequence token: transformers treats a negative id as none.
_NO_END_OF_SEQUENCE = -1

_PAGE_TOKEN_COUNT = 16
_BATCH_TOKEN_COUNT = 128
_CACHE_BYTES = 2**30
_MASK_BYTES = 2**28
# transformers admits no new prompt while less than this fraction of the cache is free.
_FREE_SHARE = 0.15


def engine_size(plan: LoadPlan, values: Mapping[str, Any], model: Any) -> dict[str, int | None]:
    """Return the engine size from the user's options; on a CPU, the default is the minimum.

    For None, transformers chooses a size based on the machine's memory. On a CPU, touching that
    memory takes seconds, and attention masks have a column per token in the cache.
    """
    page: int | None = values.get("page_size")
    pages: int | None = values.get("cache_blocks")
    batch: int | None = values.get("max_batch_tokens")
    requests = min(plan.concurrency or len(plan.prompts), len(plan.prompts))
    longest = max(prompt.token_count for prompt in (*plan.prompts, *plan.warmup_prompts))
    request_token_count = longest + plan.max_new_token_count
    if model.device.type == "cpu":
        page = page or _PAGE_TOKEN_COUNT
        batch = batch or _BATCH_TOKEN_COUNT
        pages = pages or _page_count(request_token_count, requests, page, batch, model)
    if pages is not None and page is not None and pages * page < request_token_count:
        raise UsageError(
            f"a cache of {pages} pages with {page} tokens is too small for one request of "
            f"{request_token_count} tokens",
            hint="raise --cache-blocks or --page-size, or lower --prompt-len or --max-new-tokens",
        )
    return {
        "page_size": page,
        "num_blocks": pages,
        "max_batch_tokens": batch,
        "max_requests_per_batch": min(values.get("max_batch_requests") or requests, requests),
    }


def _page_count(request_token_count: int, requests: int, page: int, batch: int, model: Any) -> int:
    per_request = math.ceil(request_token_count / page) + 1
    wanted = math.ceil(per_request * requests / (1 - _FREE_SHARE))
    least = math.ceil(per_request / (1 - _FREE_SHARE))
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_size = (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )
    element_bytes = model.dtype.itemsize
    page_bytes = 2 * config.num_hidden_layers * heads * head_size * element_bytes * page
    by_cache = _CACHE_BYTES // page_bytes
    by_mask = (_MASK_BYTES // (batch * element_bytes) - batch) // page
    return max(least, min(wanted, by_cache, by_mask))


class ContinuousBatching:
    def __init__(self, model: Any, size: Mapping[str, int | None], recorder: StepRecorder) -> None:
        self.recorder = recorder
        self._step_number = 0
        self._is_open = False
        self._batch = Batch(0, ())
        self._manager = _manager(model, size)
        try:
            # Creates the batch processor without starting it, so that it can be wrapped first.
            self._manager.warmup()
            self._wrap(self._manager.batch_processor)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        # A hanging engine thread must not keep the process alive. The manager has no option for a
        # daemon thread, but threads inherit the daemon flag from their creator.
        starter = threading.Thread(target=self._manager.start, daemon=True)
        starter.start()
        starter.join(_START_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        if self._manager.is_running():
            self._manager.stop(block=True, timeout=_STOP_TIMEOUT_S, hard_stop=True)
        if not self._manager.is_running():
            self._manager.destroy()

    def submit(self, request_id: str, token_ids: Sequence[int], max_new_token_count: int) -> None:
        accepted = self._manager.add_request(
            list(token_ids),
            request_id=request_id,
            max_new_tokens=max_new_token_count,
            eos_token_id=_NO_END_OF_SEQUENCE,
        )
        if accepted is None:
            self.check()
            raise WorkloadError("the engine is shutting down and accepts no requests")

    def cancel(self, request_id: str) -> None:
        self._manager.cancel_request(request_id)

    def result(self, timeout_s: float) -> Any | None:
        """Return a finished request (`request_id`, `generated_tokens`, `error`), or None."""
        output = self._manager.get_result(timeout=timeout_s)
        if output is None:
            self.check()
            return None
        return output if output.is_finished() else None

    def check(self) -> None:
        error = self._manager.background_thread_status.fatal_error
        if error is not None:
            raise WorkloadError(
                f"the engine failed in step {self._step_number}: {type(error).__name__}: {error}"
            ) from error
        if not self._manager.is_running():
            raise WorkloadError("the engine's thread ended for an unknown reason")

    def check_after_error(self, timeout_s: float) -> None:
        """Raise an error if the engine ends within `timeout_s`; requests fail before it ends."""
        deadline = time.monotonic() + timeout_s
        while self._manager.is_running() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.check()

    def description(self) -> dict[str, Any]:
        config = self._manager.continuous_batching_config
        names = (
            "page_size",
            "num_blocks",
            "max_batch_tokens",
            "max_requests_per_batch",
            "scheduler_type",
            "allow_block_sharing",
            "use_async_batching",
            "use_cuda_graph",
        )
        result = {name: getattr(config, name, None) for name in names}
        if result["page_size"] is None:  # the name before transformers 5.18
            result["page_size"] = getattr(config, "block_size", None)
        return result

    def _wrap(self, processor: Any) -> None:
        _replace(processor, "prepare_next_batch", self._prepare)
        _replace(processor, "update_batch", self._update)
        _replace(_part(processor, "scheduler"), "schedule_batch", self._schedule)
        inputs = _part(processor, "inputs_and_outputs")
        for name in ("prepare_batch_tensors", "get_model_kwargs"):
            _replace(inputs, name, functools.partial(self._in_stage, "prepare"))
        runner = _part(processor, "model_runner")
        _replace(runner, "compute_batch", functools.partial(self._in_stage, "compute"))

    def _prepare(self, original: Callable[[], bool]) -> bool:
        with self._reporting_failure():
            self.recorder.between_steps()
            has_work = original()
        if not has_work:
            self._close()
        return has_work

    def _schedule(self, original: Callable[..., Any], *args: Any) -> Any:
        # If the cache is full, the engine evicts requests and schedules again in the same step.
        if not self._is_open:
            self._step_number += 1
            self._is_open = True
            self.recorder.step_begins(self._step_number)
        with self.recorder.stage("schedule"):
            scheduled = original(*args)
        chosen = scheduled[0]
        if chosen:
            self._batch = Batch(self._step_number, [_share(future) for future in chosen])
            self.recorder.batch_chosen(self._batch)
        return scheduled

    def _in_stage(self, name: str, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._reporting_failure(), self.recorder.stage(name):
            return original(*args, **kwargs)

    def _update(self, original: Callable[[], None]) -> None:
        batch = self._batch
        names = [share.request_id for share in batch.shares if share.gives_token]
        with self._reporting_failure():
            with self.recorder.stage("update"):
                original()
            self.recorder.tokens_came(names)
        self._close()

    @contextlib.contextmanager
    def _reporting_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._close()
            self.recorder.stop()
            raise

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.recorder.step_ends()


def _share(future: Any) -> Share:
    """Return the share of a scheduled request in its step.

    The last chunk of a prompt may be a single token, so the number of tokens does not distinguish
    prefill from decode. `position_offset`, the number of cached tokens of the request, does,
    because transformers increases it after scheduling.
    """
    state = future.state
    return Share(
        request_id=state.request_id,
        token_count=future.query_length,
        is_prefill=state.position_offset < len(state.initial_tokens),
        gives_token=future.has_new_token,
    )


def _manager(model: Any, size: Mapping[str, int | None]) -> Any:
    import transformers

    try:
        from transformers import ContinuousBatchingConfig, GenerationConfig
    except ImportError as error:
        raise _unknown("ContinuousBatchingConfig", error) from error

    generation = GenerationConfig(
        do_sample=False, eos_token_id=_NO_END_OF_SEQUENCE, pad_token_id=0, max_new_tokens=1
    )
    settings: dict[str, Any] = {
        # Replayed CUDA graphs have no module ranges, and steps of asynchronous batching overlap.
        # The measured and the profiled load must use the same settings.
        "use_cuda_graph": False,
        "use_async_batching": False,
        # Prompts are random and share no prefix, so a prefix search would only cost time.
        "allow_block_sharing": False,
    }
    known = inspect.signature(ContinuousBatchingConfig).parameters
    if "auto_switch_to_flash" in known:
        # This setting would download a kernel; earlier versions never do.
        settings["auto_switch_to_flash"] = False
    settings |= {name: value for name, value in size.items() if value is not None}
    if "page_size" in settings and "page_size" not in known:  # before transformers 5.18
        settings["block_size"] = settings.pop("page_size")
    try:
        config = ContinuousBatchingConfig(**settings)
        return model.init_continuous_batching(
            generation_config=generation, continuous_batching_config=config
        )
    except (TypeError, AttributeError) as error:
        raise _unknown(f"continuous batching ({transformers.__version__})", error) from error


def _part(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise _unknown(f"{type(owner).__name__}.{name}", error) from error


def _replace(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Wrap a method of an object; the wrapper receives the original as its first argument."""
    original = _part(owner, name)
    setattr(owner, name, functools.partial(wrapper, original))


def _unknown(what: str, error: Exception) -> WorkloadError:
    import transformers

    return WorkloadError(
        f"transformers {transformers.__version__} has an unexpected interface: {what}: {error}",
        hint="pip install 'transformers>=5.17,<6', or use another --engine",
    )
