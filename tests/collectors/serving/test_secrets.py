"""Keys and passwords are planted in every place that takes one, and found in none that is kept."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shlex
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from _stand_in_command import stand_in_command

IN_LAUNCH = "sk-planted-in-launch"
IN_ASSIGNMENT = "hf-planted/in+assignment"
IN_BODY = 'planted "in" body'
IN_BODY_URL = "planted-in-a-url-of-the-body"
IN_URL = "planted-p@ss-in-url"
IN_KEY = "sk-planted-in-openai-key"
IN_TOKEN = "hf_planted_in_environment"
SECRETS = (IN_LAUNCH, IN_ASSIGNMENT, IN_BODY, IN_BODY_URL, IN_URL, IN_KEY, IN_TOKEN)
BODY = {"api_key": IN_BODY, "extra": [{"webhook": f"https://me:{IN_BODY_URL}@host/"}]}


def forms(secret: str) -> list[str]:
    escaped = json.dumps(secret)[1:-1]
    encoded = base64.b64encode(secret.encode()).decode()
    user = base64.b64encode(f"me:{secret}".encode()).decode()
    return [secret, escaped, urllib.parse.quote(secret, safe=""), encoded, user]


def assert_clean(text: str, where: str) -> None:
    for secret in SECRETS:
        for form in forms(secret):
            assert form not in text, f"{secret} is in {where}"


def collect(
    tmp_path: Path, *more: str, program: tuple[str, ...] = ("-m", "tracekit.collectors")
) -> subprocess.CompletedProcess[str]:
    """Run the collector with a secret everywhere, and check what it says."""
    name, _, user_password = "me", "", urllib.parse.quote(IN_URL, safe="")
    words = [sys.executable, *program, "--stage", "serve", "--engine", "lightllm"]
    words += ["--requests", "6", "--prompt-len", "8", "--max-new-tokens", "4"]
    words += ["--warmup-requests", "1", "--request-body", json.dumps(BODY)]
    words += [word.replace("USER", f"{name}:{user_password}") for word in more]
    done = subprocess.run(
        [*words, "--out", str(tmp_path / "kept" / "run")],
        env={**os.environ, "OPENAI_API_KEY": IN_KEY, "HF_TOKEN": IN_TOKEN},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert_clean(done.stdout, "stdout")
    assert_clean(done.stderr, "stderr")
    return done


def assert_nothing_kept(folder: Path) -> list[str]:
    """Look through every file of a folder, and return their names."""
    names = []
    for path in sorted(folder.rglob("*")):
        names.append(str(path.relative_to(folder)))
        assert_clean(names[-1], "a name")
        if path.is_file():
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            assert_clean(data.decode("utf-8", "replace"), names[-1])
    return names


def launch(tmp_path: Path, **quirks: Any) -> tuple[str, str]:
    """Return a command with secrets in it that starts a server that tells them, and its URL."""
    words, url = stand_in_command(tmp_path, leaks=True, **quirks)
    words = ["env", f"API_TOKEN={IN_ASSIGNMENT}", *words, "--api-key", IN_LAUNCH]
    return shlex.join(words), url.replace("//", "//USER@")


@pytest.mark.parametrize("program", [("-m", "tracekit.collectors"), ("-m", "tracekit", "collect")])
def test_no_secret_is_kept_or_shown(tmp_path: Path, program: tuple[str, ...]) -> None:
    behavior = ["ok", "ok", "echo", "echo_event", "ok"]
    command, url = launch(tmp_path, behavior=behavior, profiling="torch_profiler")
    done = collect(tmp_path, "--launch", command, "--url", url, program=program)
    assert done.returncode == 6, done.stderr
    folder = tmp_path / "kept"
    names = assert_nothing_kept(folder)
    assert {"run/run.json", "run/requests.jsonl", "run/logs/server.log"} <= set(names)
    assert "run/rank0.json.gz" in names
    # They had been there.
    log = (folder / "run" / "logs" / "server.log").read_text()
    assert "'HF_TOKEN': '(not kept)'" in log
    assert "authorization: bearer (not kept)" in log.lower()
    run = json.loads((folder / "run" / "run.json").read_text())
    assert run["load"]["server"]["launch"].endswith("--api-key (not kept)")
    reasons = (folder / "run" / "requests.jsonl").read_text()
    assert "(not kept)" in reasons
    with gzip.open(folder / "run" / "rank0.json.gz", "rt") as file:
        assert json.load(file)["environment"]["HF_TOKEN"] == "(not kept)"


def test_no_secret_is_in_an_error(tmp_path: Path) -> None:
    dying = "import os, sys; print(sys.argv, os.environ); sys.exit(3)"
    words = [sys.executable, "-c", dying, "--api-key", IN_LAUNCH, f"API_TOKEN={IN_ASSIGNMENT}"]
    unused = "http://USER@127.0.0.1:9"
    attempts = [
        ["--launch", shlex.join(words), "--url", unused],
        ["--launch", f"API_TOKEN={IN_ASSIGNMENT} vllm --api-key {IN_LAUNCH}", "--url", unused],
        ["--launch", f"vllm --api-key '{IN_LAUNCH}", "--url", unused],
        ["--url", unused, "--startup-timeout", "0.2"],
        ["--url", "http://USER@127.0.0.1:none"],
        ["--url", "http://USER@127.0.0.1/?api_key=" + IN_LAUNCH],
        ["--url", "USER@127.0.0.1"],
        ["--url", unused, "--request-body", f'{{"api_key": "{IN_LAUNCH}"'],
    ]
    for more in attempts:
        done = collect(tmp_path, *more)
        assert done.returncode in (2, 6), more
        assert "error: " in done.stderr
        assert not (tmp_path / "kept").exists() or assert_nothing_kept(tmp_path / "kept") == []


def test_a_server_that_is_killed_with_the_collector_leaves_no_log(tmp_path: Path) -> None:
    """What a server has said so far lies in no file that has a name."""
    from tracekit.collectors.process.server import ServerProcess
    from tracekit.redaction import Redactor

    logs = tmp_path / "logs"
    logs.mkdir()
    words = [sys.executable, "-c", f"print({IN_LAUNCH!r})"]
    server = ServerProcess(shlex.join(words), logs / "server.log", logs, {}, Redactor([IN_LAUNCH]))
    server.wait(30)
    assert list(logs.iterdir()) == []
    assert server.log_tail() == "(not kept)"
    server.stop()
    assert IN_LAUNCH not in (logs / "server.log").read_text()
