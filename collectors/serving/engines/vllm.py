"""vLLM: the completions API, and torch profiles if the server was started with a profiler."""

from __future__ import annotations

import re
from functools import partial

from ..engine import EngineFacts
from ..http import dialect
from ..http.dialect import Call, GetJson
from ..http.engine import HttpEngine
from .openai import Completions

OFF_NOTE = (
    "no profile: the server was started without a profiler (--profiler-config with "
    "torch_profiler_dir, or VLLM_TORCH_PROFILER_DIR before 0.13); latencies are not affected"
)

_RANK = re.compile(r"rank(\d+)")
_HOST_PID = re.compile(r"_(\d+)\.\d+\.pt\.trace")


class Vllm(Completions):
    name = "vllm"
    default_url = "http://127.0.0.1:8000"
    can_ignore_end = True
    has_running_usage = True
    has_written_when_stopped = True
    start_profile = Call("POST", "/start_profile")
    stop_profile = Call("POST", "/stop_profile")
    trace_variable = "VLLM_TORCH_PROFILER_DIR"
    trace_glob = "*.pt.trace.json*"

    def facts(self, get: GetJson) -> EngineFacts:
        card = self.first_model(get)
        version = get("/version")
        server = dialect.without_secrets(card)
        if isinstance(version, dict):
            server.update(dialect.without_secrets(version))
        return EngineFacts(
            model=dialect.named_model(self.model_name),
            vocabulary_size=dialect.local_vocabulary_size(card.get("root")),
            max_token_count=dialect.a_count(card.get("max_model_len")),
            server=server,
        )

    def refusal(self, status: int, text: str) -> str:
        return OFF_NOTE if status in (404, 405) else super().refusal(status, text)

    def trace_order(self, file_name: str) -> tuple[int, ...] | None:
        """Order by rank, or by process in old versions; omit the front end's trace."""
        if ".async_llm" in file_name:
            return None
        match = _RANK.search(file_name) or _HOST_PID.search(file_name)
        return (int(match[1]),) if match else (0,)


create = partial(HttpEngine, Vllm)
