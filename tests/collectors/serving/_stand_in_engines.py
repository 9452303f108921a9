"""The engines that the stand-in stands for, each a protocol of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from _stand_in_engine import MODEL, VOCABULARY, Engine


class LightLlm(Engine):
    name = "lightllm"
    generate_path = "/generate_stream"

    def new_tokens(self, body: dict[str, Any]) -> int:
        return self.given(body["parameters"]["max_new_tokens"])

    def problem(self, text: str) -> Any:
        return {"message": text}

    def error_event(self, text: str) -> bytes:
        return b"data:" + json.dumps({"error": {"message": text}}).encode() + b"\n\n"

    def check(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        inputs = body["inputs"]
        if isinstance(inputs, list) and max(inputs) >= VOCABULARY:
            return 400, {"message": "prompt List[int] format contain id > vocab_size"}
        return None

    async def events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        wanted = self.new_tokens(body)
        async for count in self.paced(wanted):
            value = {
                "token": {
                    "id": 7,
                    "text": "é",
                    "logprob": -0.5,
                    "special": False,
                    "count_output_tokens": count,
                    "prompt_tokens": self.prompt_tokens(body["inputs"]),
                },
                "generated_text": None,
                "finished": count == wanted,
                "finish_reason": "length" if count == wanted else None,
                "details": None,
            }
            yield b"data:" + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "GET" and path in ("/profiler_start", "/profiler_stop"):
            if not self.quirks.profiling:
                return 400, {"message": "Profiling support not enabled"}
            self.profile_folder = self.quirks.trace_dir or os.environ.get("LIGHTLLM_TRACE_DIR")
            if path == "/profiler_stop" and self.quirks.profiling == "torch_profiler":
                for rank in range(self.quirks.trace_count):
                    name = f"lightllm-model_backend-node0_dev{rank}_tid{900 - rank}"
                    name += f".{time.time_ns()}.pt.trace.json.gz"
                    # The answer does not wait for the inference loop to have written it.
                    self.later(lambda name=name, rank=rank: self.write_trace(name, rank))
            return 200, {"status": "ok"}
        if path == "/health":
            return 200, {"message": "Ok"}
        if path == "/get_server_info":
            return 200, {
                "model_dir": f"/models/{MODEL}",
                "tp": self.quirks.trace_count,
                "nnodes": 1,
                "data_type": "bfloat16",
                "max_req_total_len": 2048,
                "enable_profiling": self.quirks.profiling,
                "hf_token": "hf_very_secret",
                **({"argv": sys.argv, "env": dict(os.environ)} if self.quirks.leaks else {}),
            }
        return await super().other(method, path, body)


class Completions(Engine):
    """The completions API as vLLM and SGLang speak it."""

    async def events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        wanted = self.new_tokens(body)
        prompt = self.prompt_tokens(body["prompt"])
        options = body.get("stream_options") or {}
        async for count in self.paced(wanted):
            value: dict[str, Any] = {
                "id": "cmpl-1",
                "object": "text_completion",
                "created": 1,
                "model": MODEL,
                "choices": [
                    {
                        "index": 0,
                        "text": " é" if count % 2 else "",
                        "logprobs": None,
                        "finish_reason": "length" if count == wanted else None,
                    }
                ],
            }
            if options.get("continuous_usage_stats"):
                value["usage"] = usage(prompt, count)
            yield b"data: " + json.dumps(value).encode() + b"\n\n"
        if options.get("include_usage"):
            value = {"id": "cmpl-1", "choices": [], "usage": usage(prompt, wanted)}
            yield b"data: " + json.dumps(value).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    def check(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        if body.get("model") != MODEL:
            return 404, {"error": {"message": f"The model `{body.get('model')}` does not exist."}}
        return None

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/health":
            return 200, ""
        if path == "/v1/models":
            card = {"id": MODEL, "object": "model", "max_model_len": 2048, "root": "/models/x"}
            return 200, {"object": "list", "data": [card]}
        return await super().other(method, path, body)


class Vllm(Completions):
    name = "vllm"

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/version":
            return 200, {"version": "0.32.0"}
        if method == "POST" and self.quirks.profiling and path.endswith("_profile"):
            self.profile_folder = self.quirks.trace_dir or os.environ["VLLM_TORCH_PROFILER_DIR"]
            if path == "/stop_profile":
                # Answered when the files are written; the front end writes one as well.
                for rank in range(self.quirks.trace_count):
                    await self.write_trace(f"rank{rank}.{time.time_ns()}.pt.trace.json.gz", rank)
                await self.write_trace(f"host_1.async_llm.{time.time_ns()}.pt.trace.json.gz", 0)
            return 200, ""
        return await super().other(method, path, body)


class Sglang(Completions):
    name = "sglang"

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/server_info":
            return 200, {
                "model_path": f"/models/{MODEL}",
                "tp_size": self.quirks.trace_count,
                "api_key": "sk-very-secret",
                "attention_backend": "flashinfer",
                "internal_states": [{"large": "x" * 1000}],
                "version": "0.5",
            }
        if path == "/start_profile":
            self.profile_folder = body["output_dir"]
            return 200, "Start profiling.\n"
        if path == "/stop_profile":
            for rank in range(self.quirks.trace_count):
                await self.write_trace(f"1700000000.5-TP-{rank}.trace.json.gz", rank)
            return 200, "Stop profiling. This will take some time.\n"
        return await super().other(method, path, body)


class Tgi(Engine):
    name = "tgi"
    generate_path = "/generate_stream"

    def new_tokens(self, body: dict[str, Any]) -> int:
        return self.given(body["parameters"]["max_new_tokens"])

    def problem(self, text: str) -> Any:
        return {"error": text, "error_type": "overloaded"}

    def error_event(self, text: str) -> bytes:
        value = {"error": f"Request failed during generation: {text}", "error_type": "generation"}
        return b"data:" + json.dumps(value).encode() + b"\n\n"

    def check(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        if not isinstance(body["inputs"], str):
            return 422, "Failed to deserialize the JSON body: inputs: invalid type: sequence"
        return None

    async def events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        wanted = self.new_tokens(body)
        yield b":\n\n"
        async for count in self.paced(wanted):
            is_last = count == wanted
            value = {
                "index": count,
                "token": {"id": 7, "text": " é", "logprob": -0.5, "special": False},
                "generated_text": " é" * wanted if is_last else None,
                "details": {
                    "finish_reason": "length",
                    "generated_tokens": wanted,
                    "seed": None,
                    "input_length": self.prompt_tokens(body["inputs"]),
                }
                if is_last and body["parameters"].get("details")
                else None,
            }
            yield b"data:" + json.dumps(value).encode() + b"\n\n"

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/health":
            return 200, ""
        if path == "/info":
            return 200, {"model_id": MODEL, "max_total_tokens": 2048, "version": "3.3.4"}
        return await super().other(method, path, body)


class OpenAi(Engine):
    """The completions API as `transformers serve` speaks it: text only, no `[DONE]`."""

    name = "openai"
    health_path = "/v1/models"

    def check(self, body: dict[str, Any]) -> tuple[int, Any] | None:
        known = {"model", "prompt", "max_tokens", "temperature", "stream", "stream_options"}
        if set(body) - known:
            return 422, {"detail": f"Unexpected fields in the request: {set(body) - known}"}
        if not isinstance(body["prompt"], str):
            return 400, {"detail": "prompt must be a string."}
        return None

    async def events(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        wanted = self.new_tokens(body)
        async for _ in self.paced(wanted):
            choice = {"text": " é", "index": 0}
            yield b"data: " + json.dumps({"id": "req-1", "choices": [choice]}).encode() + b"\n\n"
        value = {
            "id": "req-1",
            "choices": [{"text": "", "index": 0, "finish_reason": "length"}],
            "usage": usage(self.prompt_tokens(body["prompt"]), wanted),
        }
        yield b"data: " + json.dumps(value).encode() + b"\n\n"

    async def other(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/models" and self.quirks.has_models:
            return 200, {"object": "list", "data": []}
        return await super().other(method, path, body)


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
