"""Stand-in servers, one process per engine for the session, and runs against them."""

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import free_port, wait_for

from tracekit import manifest
from tracekit.errors import WorkloadError

STAND_IN = Path(__file__).with_name("_stand_in.py")


class StandIn:
    def __init__(self, engine, folder):
        port_file = folder / "port"
        self.engine = engine
        self._process = subprocess.Popen([sys.executable, str(STAND_IN), engine, str(port_file)])
        wait_for(port_file.exists, 300)
        self.url = f"http://127.0.0.1:{port_file.read_text()}"

    def behave(self, **quirks):
        self._ask(json.dumps(quirks).encode())
        return self

    def seen(self):
        return self._ask(None)

    def stop(self):
        self._process.kill()
        self._process.wait()

    def _ask(self, data):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/stand_in", data, timeout=300) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory):
    servers = {}

    def get(engine, **quirks):
        if engine not in servers:
            servers[engine] = StandIn(engine, tmp_path_factory.mktemp(engine))
        return servers[engine].behave(**quirks)

    yield get
    for server in servers.values():
        server.stop()


@pytest.fixture
def stand_in_command(tmp_path):
    """Return a function that returns the command of a stand-in, and its URL."""

    def command(engine="lightllm", **quirks):
        port = free_port()
        words = [sys.executable, str(STAND_IN), engine, str(tmp_path / "port")]
        return [*words, json.dumps({"port": port, **quirks})], f"http://127.0.0.1:{port}"

    return command


def told_of(folder):
    return [f"figures of {folder.name}"]


@dataclass(frozen=True, slots=True)
class ServeRun:
    folder: Path
    lines: list[str]
    error: WorkloadError | None

    @property
    def manifest(self):
        return manifest.read(self.folder)

    @property
    def load(self):
        load = self.manifest.load
        assert load is not None
        return load

    @property
    def notes(self):
        """The notes of the manifest, without the ones about the load of this machine."""
        return [note for note in self.manifest.notes if not note.startswith("the client was ")]

    @property
    def all_requests(self):
        text = (self.folder / "requests.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def requests(self):
        return [r for r in self.all_requests if not r["is_warmup"] and not r["is_profiled"]]


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Return a function that runs `--stage serve` in this process; keywords are its arguments.

    `error` matches the message of the error with which the run must end.
    """
    from tracekit.collectors.collect import run

    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.endswith("_proxy")]:
        monkeypatch.delenv(name)

    def start(server, *, error=None, **values):
        lines = []
        given = {
            "stage": "serve",
            "out": tmp_path / "run",
            "requests": 8,
            "prompt_len": 16,
            "max_new_tokens": 6,
            "warmup_requests": 2,
        }
        if server is not None:
            given |= {"engine": server.engine, "url": server.url}
        refused = nullcontext() if error is None else pytest.raises(WorkloadError, match=error)
        with refused as caught:
            run(given | values, ["tracekit", "collect"], lines.append, serving_figures=told_of)
        return ServeRun(tmp_path / "run", lines, caught and caught.value)

    return start


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tracekit.collectors.serving.engines import transformers as engine_module

    made = engine_module.create({"model": "tiny", "precision": "fp32"})
    facts = made.start(tmp_path_factory.mktemp("engine"), lambda _: None)
    assert facts.model.parameter_count == 4_212_992
    assert (facts.vocabulary_size, facts.max_token_count) == (2048, 2048)
    assert (facts.precision, facts.attention_backend) == ("fp32", "torch SDPA")
    yield made
    made.close()
