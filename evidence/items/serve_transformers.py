"""Continuous batching of transformers in this process, under a load."""

from __future__ import annotations

import json

from evidence._commands import options, tracekit
from evidence._records import Record
from evidence._setting import Setting
from evidence._trace_checks import check


def run(setting: Setting, record: Record) -> None:
    """Serve a load, and look at its trace."""
    wanted = {name: value for name, value in setting.arguments.items() if name != "script"}
    folder = setting.runs_folder / "serve_transformers"
    with record.case("load") as case:
        words = options({**wanted, "out": folder, "warmup_requests": 2})
        done = tracekit(setting, "collect", "--stage", "serve", *words)
        case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
        run = json.loads((folder / "run.json").read_text("utf-8"))
        load = run["load"]
        count = wanted["requests"]
        case.claim("all requests are answered", load["ok_count"] == count, load["ok_count"])
        case.figure(attention_backend=run["attention_backend"], load=load, notes=run["notes"])
    with record.case("trace") as case:
        phases = {"decode"} | ({"prefill"} if setting.is_dry else set())
        check(
            case,
            folder,
            phases=phases if setting.host.has_cuda else (),
            has_cuda=setting.host.has_cuda,
        )
    for name in ("latency", "throughput", "serving_steps", "serving_modules", "request_steps"):
        with record.case(f"query {name}") as case:
            done = tracekit(setting, "query", name, folder, "--format", "json")
            case.claim("it ends well", done.exit_code == 0, done.last_words, "exit code 0")
            case.figure(row_count=len(done.json()) if done.exit_code == 0 else 0)
