"""Keys and passwords are planted in every input, and appear in no output."""

import base64
import gzip
import json
import shlex
import sys
import urllib.parse

from processes import finished

from tracekit.collectors.__main__ import main

IN_LAUNCH = "sk-planted-in-launch"
IN_ASSIGNMENT = "hf-planted/in+assignment"
IN_BODY = 'planted "in" body'
IN_BODY_URL = "planted-in-a-url-of-the-body"
IN_URL = "planted-p@ss-in-url"
IN_KEY = "sk-planted-in-openai-key"
IN_TOKEN = "hf_planted_in_environment"
SECRETS = (IN_LAUNCH, IN_ASSIGNMENT, IN_BODY, IN_BODY_URL, IN_URL, IN_KEY, IN_TOKEN)
BODY = {"api_key": IN_BODY, "extra": [{"webhook": f"https://me:{IN_BODY_URL}@host/"}]}


def forms(secret):
    escaped = json.dumps(secret)[1:-1]
    encoded = base64.b64encode(secret.encode()).decode()
    user = base64.b64encode(f"me:{secret}".encode()).decode()
    return [secret, escaped, urllib.parse.quote(secret, safe=""), encoded, user]


def assert_clean(text, where):
    for secret in SECRETS:
        for form in forms(secret):
            assert form not in text, f"{secret} is in {where}"


def arguments(tmp_path, *more):
    """Return the arguments of a load with secrets in its body and, as USER, in its URL."""
    user = f"me:{urllib.parse.quote(IN_URL, safe='')}"
    words = ["--stage", "serve", "--engine", "lightllm", "--out", str(tmp_path / "kept" / "run")]
    words += ["--requests", "6", "--prompt-len", "8", "--max-new-tokens", "4"]
    words += ["--warmup-requests", "1", "--request-body", json.dumps(BODY)]
    return [*words, *(word.replace("USER", user) for word in more)]


def assert_nothing_kept(folder):
    names = []
    for path in sorted(folder.rglob("*")):
        names.append(str(path.relative_to(folder)))
        assert_clean(names[-1], "a name")
        if path.is_file():
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            assert_clean(data.decode("utf-8", "replace"), names[-1])
    return names


def test_no_secret_is_written_or_shown(tmp_path, stand_in_command):
    behavior = ["ok", "ok", "echo", "echo_event", "ok"]
    words, url = stand_in_command(leaks=True, behavior=behavior, profiling="torch_profiler")
    words = ["env", f"API_TOKEN={IN_ASSIGNMENT}", *words, "--api-key", IN_LAUNCH]
    url = url.replace("//", "//USER@")
    load = arguments(tmp_path, "--launch", shlex.join(words), "--url", url)
    command = (sys.executable, "-m", "tracekit", "collect", *load)
    done = finished(*command, OPENAI_API_KEY=IN_KEY, HF_TOKEN=IN_TOKEN)
    assert_clean(done.stdout + done.stderr, "the output")
    assert done.returncode == 6, done.stderr
    assert "Traceback" not in done.stderr
    folder = tmp_path / "kept"
    names = assert_nothing_kept(folder)
    assert {"run/run.json", "run/requests.jsonl", "run/logs/server.log"} <= set(names)
    assert "run/rank0.json.gz" in names
    # The server had written them.
    log = (folder / "run" / "logs" / "server.log").read_text()
    assert "'HF_TOKEN': '(redacted)'" in log
    assert "authorization: bearer (redacted)" in log.lower()
    run = json.loads((folder / "run" / "run.json").read_text())
    assert run["load"]["server"]["launch"].endswith("--api-key (redacted)")
    reasons = (folder / "run" / "requests.jsonl").read_text()
    assert "(redacted)" in reasons
    with gzip.open(folder / "run" / "rank0.json.gz", "rt") as file:
        assert json.load(file)["environment"]["HF_TOKEN"] == "(redacted)"


def test_no_secret_is_in_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", IN_KEY)
    monkeypatch.setenv("HF_TOKEN", IN_TOKEN)
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
        assert main(arguments(tmp_path, *more)) in (2, 6), more
        shown = capsys.readouterr()
        assert "error: " in shown.err
        assert_clean(shown.out + shown.err, "the output")
        assert not (tmp_path / "kept").exists() or assert_nothing_kept(tmp_path / "kept") == []


def test_a_server_that_is_killed_with_the_collector_leaves_no_log(tmp_path):
    """The output of a running server is in no file that has a name."""
    from tracekit.collectors.serving.http.engine import ServerProcess
    from tracekit.redaction import Redactor

    logs = tmp_path / "logs"
    logs.mkdir()
    words = [sys.executable, "-c", f"print({IN_LAUNCH!r})"]
    server = ServerProcess(shlex.join(words), logs / "server.log", logs, {}, Redactor([IN_LAUNCH]))
    server.wait(30)
    assert list(logs.iterdir()) == []
    assert server.log_tail() == "(redacted)"
    server.stop()
    assert IN_LAUNCH not in (logs / "server.log").read_text()
