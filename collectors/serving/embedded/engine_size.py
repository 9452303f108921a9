"""How large an embedded engine is made on a CPU: as the load needs it, and no larger.

Left alone, transformers sizes the cache by the memory of the machine. On a GPU that is what one
wants. On a CPU it takes seconds to touch the memory, and its attention needs a mask of the tokens
of a step times those of the whole cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tracekit.errors import UsageError

from ..load.plan import LoadPlan
from .continuous_batching import EngineSize

_PAGE_TOKEN_COUNT = 16
_BATCH_TOKEN_COUNT = 128
_CACHE_BYTES = 2**30
_MASK_BYTES = 2**28
# transformers admits no new prompt while less than this share of the cache is free.
_FREE_SHARE = 0.15


def engine_size(plan: LoadPlan, values: Mapping[str, object], model: Any) -> EngineSize:
    """Return the size for a load.

    Args:
        plan: the load.
        values: the arguments; `page_size`, `cache_blocks` and `max_batch_tokens` go first.
        model: on its device, with its type.

    Raises:
        UsageError: what was asked for cannot hold a single request.
    """
    page = _count(values, "page_size")
    pages = _count(values, "cache_blocks")
    batch = _count(values, "max_batch_tokens")
    requests = min(plan.concurrency or len(plan.prompts), len(plan.prompts))
    longest = max(prompt.token_count for prompt in (*plan.prompts, *plan.warmup_prompts))
    request_token_count = longest + plan.max_new_token_count
    if model.device.type == "cpu":
        page = page or _PAGE_TOKEN_COUNT
        batch = batch or _BATCH_TOKEN_COUNT
        pages = pages or _page_count(request_token_count, requests, page, batch, model)
    if pages is not None and page is not None and pages * page < request_token_count:
        raise UsageError(
            f"a cache of {pages} pages of {page} tokens does not hold one request of "
            f"{request_token_count} tokens",
            hint="raise --cache-blocks or --page-size, or lower --prompt-len or --max-new-tokens",
        )
    return EngineSize(page, pages, batch, requests)


def _page_count(request_token_count: int, requests: int, page: int, batch: int, model: Any) -> int:
    """Return the pages that hold all requests at once, if that stays within bounds."""
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


def _count(values: Mapping[str, object], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    count = int(str(value))
    if count < 1:
        raise UsageError(f"--{name.replace('_', '-')} is {count}, and must be 1 or more")
    return count
