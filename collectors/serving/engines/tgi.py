"""Text Generation Inference: latency and throughput only, without a profile."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..engine import EngineFacts
from ..http import dialect
from ..http.dialect import Dialect, Event, GetJson
from ..http.engine import HttpEngine
from ..plan import Prompt

NOTE = "no profile: Text Generation Inference has no profiler"


class Tgi(Dialect):
    """TGI's `/generate_stream`: text prompts, one event per token, status 200 even for errors."""

    name = "tgi"
    default_url = "http://127.0.0.1:8080"
    generate_path = "/generate_stream"
    takes_token_ids = False

    def body(self, prompt: Prompt, max_new_token_count: int) -> dict[str, Any]:
        return {
            "inputs": prompt.text,
            "parameters": {
                "max_new_tokens": max_new_token_count,
                "do_sample": False,
                "details": True,
            },
        }

    def event(self, payload: bytes) -> Event:
        value = dialect.read_json(payload)
        if "error" in value:
            kind = value.get("error_type")
            text = dialect.error_text(value["error"])
            return Event(error=f"{kind}: {text}" if kind else text)
        if not isinstance(value.get("token"), dict):
            raise ValueError("the event has no token")
        details = value.get("details") or {}
        return Event(
            token_count=1,
            is_last=value.get("generated_text") is not None,
            prompt_token_count=details.get("input_length"),
            output_token_count=details.get("generated_tokens"),
        )

    def facts(self, get: GetJson) -> EngineFacts:
        info = get("/info")
        info = info if isinstance(info, dict) else {}
        return EngineFacts(
            model=dialect.named_model(info.get("model_id")),
            max_token_count=dialect.a_count(info.get("max_total_tokens")),
            can_profile=False,
            profile_note=NOTE,
            server=dialect.without_secrets(info),
        )


create = partial(HttpEngine, Tgi)
