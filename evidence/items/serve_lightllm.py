"""A real LightLLM server from its source, under a load, with its own profiler."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from evidence._commands import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting
from evidence._trace_checks import check

_STARTUP_S = 200
_FLAGS = (
    *("--host", "127.0.0.1", "--tp", "1", "--data_type", "fp16"),
    *("--llm_prefill_att_backend", "triton", "--llm_decode_att_backend", "triton"),
    *("--sampling_backend", "triton", "--disable_vision", "--disable_audio"),
    *("--max_req_total_len", "4096", "--batch_max_tokens", "4096"),
    *("--running_max_req_size", "64", "--graph_max_batch_size", "16", "--mem_fraction", "0.7"),
    *("--disable_shm_warning", "--enable_profiling", "torch_profiler"),
)


def run(setting: Setting, record: Record) -> None:
    """Make a model's folder, start the server, send a load and look at the trace."""
    wanted = setting.arguments
    model = setting.work_folder / "model"
    folder = setting.runs_folder / "serve_lightllm"
    with record.case("model's folder") as case:
        script = Path(__file__).resolve().parent.parent / "_llama_folder.py"
        # Another process, so that the device's memory is free again.
        command = [sys.executable, str(script), str(model), str(wanted["layers"])]
        made = subprocess.run(command, check=False)
        size = sum(path.stat().st_size for path in model.glob("*.safetensors"))
        case.claim("it is written", made.returncode == 0 and size > 0, size)
    with record.case("load") as case:
        if not (model / "config.json").is_file():
            raise SkippedError("there is no model")
        done = tracekit(
            setting,
            *("collect", "--stage", "serve", "--engine", "lightllm", "--out", folder),
            *("--requests", wanted["requests"], "--prompt-len", wanted["prompt_len"]),
            *("--max-new-tokens", wanted["max_new_tokens"], "--concurrency", 64),
            *("--profile-for", "1s", "--startup-timeout", _STARTUP_S, "--trace-timeout", 90),
            *("--timeout", 120, *_launch(setting, model)),
        )
        case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
        run = json.loads((folder / "run.json").read_text("utf-8"))
        count = wanted["requests"]
        case.claim("all are answered", run["load"]["ok_count"] == count, run["load"]["ok_count"])
        case.figure(load=run["load"], notes=run["notes"])
    with record.case("trace") as case:
        if not list(folder.glob("rank*.json.gz")):
            raise SkippedError("there is no trace")
        # LightLLM marks neither phases nor modules: what can be placed is for the record.
        check(
            case,
            folder,
            has_cuda=True,
            linked_at_least_pct=90.0,
            unattributed_at_most_pct=100.0,
        )


def _launch(setting: Setting, model: Path) -> list[str]:
    """Return the options that start the server and say where it is."""
    python, source = setting.lightllm_python, setting.lightllm_source
    if python is None or source is None:
        raise SkippedError("LightLLM is not in the pack")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # hypercorn, which the server starts by name, is in LightLLM's own environment.
    search = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    command = [
        *("env", f"PATH={search}", f"PYTHONPATH={source}", "HF_HUB_OFFLINE=1"),
        *(python, "-m", "lightllm.server.api_server"),
        *("--model_dir", str(model), "--port", str(port), *_FLAGS),
    ]
    return ["--url", f"http://127.0.0.1:{port}", "--launch", shlex.join(command)]
