"""SGLang: the completions API, and torch profiles in a folder that the start call specifies."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from tracekit.manifest import Parallel

from ..engine import EngineFacts
from ..http import dialect
from ..http.dialect import Call, GetJson
from ..http.engine import HttpEngine
from .openai import Completions


class Sglang(Completions):
    name = "sglang"
    default_url = "http://127.0.0.1:30000"
    can_ignore_end = True
    has_running_usage = True
    has_written_when_stopped = True
    takes_trace_folder = True
    stop_profile = Call("POST", "/stop_profile")
    trace_variable = "SGLANG_TORCH_PROFILER_DIR"
    trace_glob = "*.trace.json*"

    def facts(self, get: GetJson) -> EngineFacts:
        card = self.first_model(get)
        info = get("/server_info") or get("/get_server_info")
        info = info if isinstance(info, dict) else {}
        folder = info.get("model_path") or card.get("root")
        tensor = dialect.a_count(info.get("tp_size"), dialect.MAX_RANKS) or 1
        pipeline = dialect.a_count(info.get("pp_size"), dialect.MAX_RANKS // tensor) or 1
        # Current state of every scheduler: large, and irrelevant for the manifest.
        info.pop("internal_states", None)
        server = dialect.without_secrets({**card, **info})
        return EngineFacts(
            model=dialect.named_model(self.model_name),
            vocabulary_size=dialect.local_vocabulary_size(folder),
            max_token_count=dialect.a_count(info.get("context_length"))
            or dialect.a_count(card.get("max_model_len")),
            attention_backend=dialect.a_name(info.get("attention_backend")),
            parallel=Parallel(
                world_size=tensor * pipeline,
                tensor_size=tensor,
                pipeline_size=pipeline,
                node_count=dialect.a_count(info.get("nnodes"), dialect.MAX_RANKS) or 1,
            ),
            server=server,
        )

    def start_call(self, trace_folder: Path | None) -> Call | None:
        body: dict[str, Any] = {"record_shapes": True, "with_stack": False}
        if trace_folder is not None:
            body["output_dir"] = str(trace_folder)
        return Call("POST", "/start_profile", body)

    def trace_order(self, file_name: str) -> tuple[int, ...] | None:
        ranks = [re.search(rf"-{part}-(\d+)", file_name) for part in ("DP", "PP", "TP")]
        return tuple(int(rank[1]) if rank else 0 for rank in ranks) if ranks[2] else None


create = partial(HttpEngine, Sglang)
