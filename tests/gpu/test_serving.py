"""Serving of Llama2-7B under a load: LightLLM's own server, and transformers in process."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from devices import each, on_each_device, on_gpu
from processes import free_port
from trace_claims import claim_trace

pytestmark = pytest.mark.alone

_LIGHTLLM_FLAGS = (
    *("--host", "127.0.0.1", "--tp", "1", "--data_type", "fp16"),
    *("--llm_prefill_att_backend", "triton", "--llm_decode_att_backend", "triton"),
    *("--sampling_backend", "triton", "--disable_vision", "--disable_audio"),
    *("--max_req_total_len", "4096", "--batch_max_tokens", "4096"),
    *("--running_max_req_size", "64", "--graph_max_batch_size", "16", "--mem_fraction", "0.7"),
    *("--disable_shm_warning", "--enable_profiling", "torch_profiler"),
)
_LOAD = {"model": "llama2-7b", "requests": 192, "prompt_len": 512, "max_new_tokens": 64}
_LOAD |= {"concurrency": 64, "max_batch_tokens": 4096}
_TRIAL = {"model": "tiny", "requests": 4, "prompt_len": 16, "max_new_tokens": 4}
_TRIAL |= {"concurrency": 2, "max_batch_tokens": 64}
_ANALYSES = ("latency", "throughput", "serving_steps", "serving_modules", "request_steps")


@on_gpu
def test_lightllm(trial):
    """A LightLLM server answers all requests, and the trace of its profiler adds up.

    TRACEKIT_LIGHTLLM_PYTHON is the Python of its environment, and TRACEKIT_LIGHTLLM_SOURCE the
    folder with the package. It marks no phases or modules, so the attributed share is only
    reported.
    """
    python = os.environ.get("TRACEKIT_LIGHTLLM_PYTHON")
    source = os.environ.get("TRACEKIT_LIGHTLLM_SOURCE")
    if python is None or source is None:
        pytest.skip("needs LightLLM (TRACEKIT_LIGHTLLM_PYTHON and TRACEKIT_LIGHTLLM_SOURCE)")
    model = trial.work / "model"
    # Another process, so that the device's memory is free again.
    command = [sys.executable, str(Path(__file__).with_name("llama_folder.py")), str(model)]
    subprocess.run(command, check=True, timeout=120)
    assert list(model.glob("*.safetensors"))
    port = free_port()
    # hypercorn, which the server starts by name, is in LightLLM's own environment.
    search = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
    launch = [
        *("env", f"PATH={search}", f"PYTHONPATH={source}", "HF_HUB_OFFLINE=1"),
        *(python, "-m", "lightllm.server.api_server"),
        *("--model_dir", str(model), "--port", str(port), *_LIGHTLLM_FLAGS),
    ]
    run = trial.collect(
        "serving/lightllm",
        *("--stage", "serve", "--engine", "lightllm"),
        *("--requests", 256, "--prompt-len", 512, "--max-new-tokens", 64, "--concurrency", 64),
        *("--profile-for", "1s", "--startup-timeout", 200, "--trace-timeout", 90),
        *("--timeout", 120, "--url", f"http://127.0.0.1:{port}", "--launch", shlex.join(launch)),
    )
    _claim_load(trial, run, 256)
    folder = trial.runs / "serving" / "lightllm"
    assert list(folder.glob("rank*.json.gz")), "there is no trace"
    claim_trace(trial, folder, linked_at_least_pct=90.0, unattributed_at_most_pct=100.0)


@on_each_device
def test_transformers(trial):
    """Continuous batching in process answers all; its trace adds up; five analyses end well."""
    trial.needs("transformers")
    load = _LOAD if trial.is_cuda else _TRIAL
    name = "serving/transformers"
    run = trial.collect(name, "--stage", "serve", **load, warmup_requests=2)
    _claim_load(trial, run, int(load["requests"]))
    folder = trial.runs / name
    # A profile from the middle of a load need not meet a prefill.
    claim_trace(trial, folder, phases={"decode"} if trial.is_cuda else ())
    for name in _ANALYSES:
        done = trial.tracekit("query", name, folder, "--format", "json")
        trial.claim(f"{name} ends well", done.exit_code == 0, done.stderr[-400:])
        trial.figures(**{f"{name}_rows": len(done.json()) if done.exit_code == 0 else 0})


def _claim_load(trial, run, request_count):
    answered = run["load"]["ok_count"]
    trial.claim(
        "all requests are answered", answered == request_count, answered, str(request_count)
    )
    trial.figures(load=run["load"], notes=run["notes"])


_TABLES = {
    **{name: ("compare", "paper", name) for name in ("table10", "table11")},
    **{name: ("query", name) for name in ("throughput", "latency")},
    "latency_cdf": ("query", "latency", "--per", "percentile"),
}


@each("table", _TABLES, on_cpu=["table10", "latency_cdf"])
def test_a_table_of_serving(table, trial):
    trial.table(*_TABLES[table], about="serving/*")
