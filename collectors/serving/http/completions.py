"""The OpenAI completions API, as far as engines agree on it."""

from __future__ import annotations

from typing import Any

from ..load.plan import Prompt
from .dialect import Dialect, Event, GetJson, error_text, read_json

_DONE = b"[DONE]"


class Completions(Dialect):
    """`POST /v1/completions` with a stream of chunks.

    `has_running_usage`: the engine puts its sum of tokens so far into every chunk when it is asked
    to. Without it a chunk counts as a piece of unknown size, and only the last usage tells the sum.
    """

    generate_path = "/v1/completions"
    has_running_usage = False

    def body(self, prompt: Prompt, max_new_token_count: int) -> dict[str, Any]:
        """Return the JSON of a request; `prompt` may be text or token ids."""
        options = {"include_usage": True}
        if self.has_running_usage:
            options["continuous_usage_stats"] = True
        body: dict[str, Any] = {
            "prompt": prompt.text if prompt.token_ids is None else list(prompt.token_ids),
            "max_tokens": max_new_token_count,
            "temperature": 0,
            "stream": True,
            "stream_options": options,
        }
        if self.model_name is not None:
            body["model"] = self.model_name
        return body

    def event(self, payload: bytes) -> Event:
        """Read a chunk, or the `[DONE]` that ends most streams."""
        if payload.strip() == _DONE:
            return Event(is_last=True)
        value = read_json(payload)
        if value.get("error"):
            return Event(error=error_text(value["error"]))
        choices = value.get("choices")
        if not isinstance(choices, list):
            raise ValueError("the chunk has no choices")
        usage = value.get("usage") or {}
        event = Event(
            engine_request_id=value.get("id"),
            prompt_token_count=usage.get("prompt_tokens"),
            output_token_count=usage.get("completion_tokens"),
        )
        if choices:
            choice = choices[0]
            reason = choice.get("finish_reason")
            # An empty text before the end is a token that makes no character yet. At the end it may
            # be none at all: only a running sum can tell.
            is_counted = self.has_running_usage and bool(usage)
            if choice.get("text") or reason is None or is_counted:
                event.token_count = None
            # Not all engines send [DONE], and usage may follow: a reason to finish is an end, and
            # what still comes is read.
            event.is_last = reason is not None
            if reason == "abort":
                event.error = "the engine aborted the request"
        return event

    def first_model(self, get: GetJson) -> dict[str, Any]:
        """Return the first entry of `/v1/models`, or an empty one."""
        answer = get("/v1/models")
        models = answer.get("data") if isinstance(answer, dict) else None
        if isinstance(models, list) and models and isinstance(models[0], dict):
            return models[0]
        return {}
