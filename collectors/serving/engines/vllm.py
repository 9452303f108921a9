"""vLLM: the completions API, and a torch profile by `/start_profile` and `/stop_profile`.

The two calls exist only in a server that was started with a profiler: `--profiler-config` (0.13
and later) or `VLLM_TORCH_PROFILER_DIR` (before). Stopping is answered when the traces are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine import EngineFacts, ServingEngine
from ..http.completions import Completions
from ..http.dialect import Call, GetJson, local_vocabulary_size, named_model, without_secrets
from ..http.engine import HttpEngine
from ..http.server_values import a_count, a_name
from ..load.plan import Prompt

OFF_NOTE = (
    "no profile: the server was started without a profiler (--profiler-config with "
    "torch_profiler_dir, or VLLM_TORCH_PROFILER_DIR before 0.13); the latencies are not affected"
)

_RANK = re.compile(r"rank(\d+)")
_HOST_PID = re.compile(r"_(\d+)\.\d+\.pt\.trace")


class Vllm(Completions):
    """vLLM's completions, which take token ids and count tokens in every chunk."""

    name = "vllm"
    default_url = "http://127.0.0.1:8000"
    has_running_usage = True
    has_written_when_stopped = True
    trace_variable = "VLLM_TORCH_PROFILER_DIR"
    trace_glob = "*.pt.trace.json*"

    def body(self, prompt: Prompt, max_new_token_count: int) -> dict[str, Any]:
        """Return the JSON of a request that does not end early."""
        return {"ignore_eos": True, **super().body(prompt, max_new_token_count)}

    def facts(self, get: GetJson) -> EngineFacts:
        """Ask `/v1/models` and `/version`."""
        card = self.first_model(get)
        self.model_name = self.model_name or a_name(card.get("id"))
        version = get("/version")
        server = without_secrets(card)
        if isinstance(version, dict):
            server.update(without_secrets(version))
        return EngineFacts(
            model=named_model(self.model_name),
            vocabulary_size=local_vocabulary_size(card.get("root")),
            max_token_count=a_count(card.get("max_model_len")),
            server=server,
        )

    def start_call(self, trace_folder: Path | None) -> Call | None:
        """Return the call that starts a profile; the folder is the server's own choice."""
        del trace_folder
        return Call("POST", "/start_profile")

    def stop_call(self) -> Call | None:
        """Return the call that stops a profile and writes the traces."""
        return Call("POST", "/stop_profile")

    def refusal(self, status: int, text: str) -> str:
        """Explain the 404 of a server without a profiler."""
        return OFF_NOTE if status in (404, 405) else super().refusal(status, text)

    def trace_order(self, file_name: str) -> tuple[int, ...] | None:
        """Order by rank, or by process in versions that name none; leave the front end's out."""
        if ".async_llm" in file_name:
            return None
        found = _RANK.search(file_name) or _HOST_PID.search(file_name)
        return (int(found[1]),) if found else (0,)


def create(values: Mapping[str, object]) -> ServingEngine:
    """Make the engine from the arguments."""
    return HttpEngine(Vllm(), values)
