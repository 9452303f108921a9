"""LightLLM: its streaming API and its profiler.

The server writes traces to its `LIGHTLLM_TRACE_DIR` some time after it has answered
`/profiler_stop`. In its NVTX mode, the same calls start and end a range for Nsight Systems.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from tracekit.manifest import Parallel

from ..engine import EngineFacts
from ..http import dialect
from ..http.dialect import Call, Dialect, Event, GetJson
from ..http.engine import HttpEngine
from ..plan import Prompt

NVTX_NOTE = (
    "the server profiles in NVTX mode: the window is the range LIGHTLLM_PROFILE in Nsight Systems, "
    "and there is no trace file"
)
OFF_NOTE = (
    "no profile: the server runs without --enable_profiling torch_profiler; latencies "
    "are not affected"
)

_PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
_TRACE = re.compile(r"lightllm-model_backend-node(\d+)_dev(\d+)(?:_tid(\d+))?\.")


class LightLlm(Dialect):
    name = "lightllm"
    default_url = "http://127.0.0.1:8000"
    generate_path = "/generate_stream"
    start_profile = Call("GET", "/profiler_start")
    stop_profile = Call("GET", "/profiler_stop")
    trace_variable = "LIGHTLLM_TRACE_DIR"
    trace_glob = "*.pt.trace.json*"

    def body(self, prompt: Prompt, max_new_token_count: int) -> dict[str, Any]:
        inputs = prompt.text if prompt.token_ids is None else list(prompt.token_ids)
        return {
            "inputs": inputs,
            "parameters": {
                "max_new_tokens": max_new_token_count,
                "do_sample": False,
                "ignore_eos": True,
            },
        }

    def event(self, payload: bytes) -> Event:
        value = dialect.read_json(payload)
        if "error" in value:
            return Event(error=dialect.error_text(value["error"]))
        token = value.get("token")
        if not isinstance(token, dict) or "finished" not in value:
            raise ValueError("the event has no token")
        return Event(
            token_count=1,
            is_last=bool(value["finished"]),
            prompt_token_count=token.get("prompt_tokens") or None,
            output_token_count=token.get("count_output_tokens") or None,
        )

    def facts(self, get: GetJson) -> EngineFacts:
        info = get("/get_server_info")
        if not isinstance(info, dict):
            name = get("/get_model_name")
            known = name.get("model_name") if isinstance(name, dict) else None
            return EngineFacts(model=dialect.named_model(known))
        folder = info.get("model_dir")
        mode = info.get("enable_profiling")
        self.writes_traces = mode != "nvtx"
        tensor = dialect.a_count(info.get("tp"), dialect.MAX_RANKS) or 1
        data_type = dialect.a_name(info.get("data_type"))
        can_profile, note = True, None
        if "enable_profiling" in info:
            can_profile = bool(mode)
            note = NVTX_NOTE if mode == "nvtx" else None if mode else OFF_NOTE
        return EngineFacts(
            model=dialect.named_model(Path(folder).name if isinstance(folder, str) else None),
            vocabulary_size=dialect.local_vocabulary_size(folder),
            max_token_count=dialect.a_count(info.get("max_req_total_len")),
            precision=_PRECISIONS.get(data_type or "", data_type),
            parallel=Parallel(
                world_size=tensor,
                tensor_size=tensor,
                node_count=dialect.a_count(info.get("nnodes"), dialect.MAX_RANKS) or 1,
            ),
            can_profile=can_profile,
            profile_note=note,
            server=dialect.without_secrets(info),
        )

    def refusal(self, status: int, text: str) -> str:
        if status == 400:
            return OFF_NOTE
        if status == 404:
            return "no profile: this LightLLM version has no /profiler_start; use a later one"
        return super().refusal(status, text)

    def trace_order(self, file_name: str) -> tuple[int, ...] | None:
        match = _TRACE.match(file_name)
        return (int(match[1]), int(match[2])) if match else None


create = partial(HttpEngine, LightLlm)
