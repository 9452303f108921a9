"""The OpenAI completions API, for any compatible server."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..engine import EngineFacts
from ..http import dialect
from ..http.dialect import Dialect, Event, GetJson
from ..http.engine import HttpEngine
from ..plan import Prompt

_DONE = b"[DONE]"
_NO_LIST = (404, 405, 501)

NOTE = "no profile: the OpenAI API has no profiler; use an --engine that has one"


class Completions(Dialect):
    """`POST /v1/completions` with a stream of chunks.

    Without `has_running_usage`, only the last `usage` has the number of tokens, so counts per chunk
    are unknown. With `can_ignore_end`, the engine can generate past the end-of-sequence token.
    """

    generate_path = "/v1/completions"
    can_ignore_end = False
    has_running_usage = False

    def body(self, prompt: Prompt, max_new_token_count: int) -> dict[str, Any]:
        options = {"include_usage": True}
        if self.has_running_usage:
            options["continuous_usage_stats"] = True
        body: dict[str, Any] = {"ignore_eos": True} if self.can_ignore_end else {}
        body |= {
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
        if payload.strip() == _DONE:
            return Event(is_last=True)
        value = dialect.read_json(payload)
        if value.get("error"):
            return Event(error=dialect.error_text(value["error"]))
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
            # An empty text before the end is a token that does not complete a character yet. In the
            # last chunk, only a running total shows whether it is a token at all.
            is_counted = self.has_running_usage and bool(usage)
            if choice.get("text") or reason is None or is_counted:
                event.token_count = None
            # Not all engines send [DONE], so a finish reason marks the last event. Later events,
            # such as usage, are still read.
            event.is_last = reason is not None
            if reason == "abort":
                event.error = "the engine aborted the request"
        return event

    def first_model(self, get: GetJson) -> dict[str, Any]:
        answer = get("/v1/models")
        models = answer.get("data") if isinstance(answer, dict) else None
        card: dict[str, Any] = {}
        if isinstance(models, list) and models and isinstance(models[0], dict):
            card = models[0]
        self.model_name = self.model_name or dialect.a_name(card.get("id"))
        return card


class OpenAi(Completions):
    """Any server with a compatible `/v1/completions`: latency and throughput only.

    A test request shows whether the server accepts token ids; few servers other than vLLM do.
    """

    name = "openai"
    default_url = "http://127.0.0.1:8000"
    takes_token_ids = None
    # The API has no health check, so a server that lists its models is up. If the user names the
    # model, any answer is enough, because some servers have no list.
    health_path = "/v1/models"

    def is_up(self, status: int) -> bool:
        return super().is_up(status) or (self.model_name is not None and status in _NO_LIST)

    def health_hint(self) -> str | None:
        if self.model_name is None:
            return "start the server first (--launch); if it has no /v1/models, pass --served-model"
        return None

    def facts(self, get: GetJson) -> EngineFacts:
        card = self.first_model(get)
        return EngineFacts(
            model=dialect.named_model(self.model_name),
            vocabulary_size=dialect.local_vocabulary_size(card.get("root") or self.model_name),
            max_token_count=dialect.a_count(card.get("max_model_len")),
            can_profile=False,
            profile_note=NOTE,
            server=dialect.without_secrets(card),
        )


create = partial(HttpEngine, OpenAi)
