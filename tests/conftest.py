"""Fixtures that tests of every part share."""

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import patient_hypothesis
import pytest
from alone import alone
from cli_result import CliResult, run_here
from every_trace import FOLDER, MADE_UP, REPO, SAMPLES, Answers
from traces_by_hand import span

import tracekit

# Some tests run the generator of the manual.
sys.path.append(str(REPO / "docs"))


def pytest_configure(config):
    """Let interrupts and hang-ups through: they are not there in the background and under nohup."""
    patient_hypothesis.load()
    # Idle threads of torch spin, and small models do not need them.
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(config, "workerinput"):
        # Programs that tests start have the system's allocator.
        os.environ.pop("LD_PRELOAD", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Check that each `nightly` mark gives a reason.

    Raises:
        pytest.UsageError: a mark has no reason.
    """
    for item in items:
        if any(not mark.args for mark in item.iter_markers("nightly")):
            raise pytest.UsageError(f"{item.nodeid}: mark nightly needs a reason")


_deselected = []


def pytest_deselected(items):
    """Count deselected tests for the closing line, which pytest-xdist does not do."""
    _deselected.extend(items)


def pytest_sessionfinish(session):
    """Report the number of deselected tests to the process that prints the closing line."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["deselected"] = len(_deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Show what a worker deselected; all workers collect, and deselect, the same tests."""
    count = getattr(node, "workeroutput", {}).get("deselected", 0)
    reporter = node.config.pluginmanager.get_plugin("terminalreporter")
    reporter.stats["deselected"] = [node] * count


@pytest.fixture(scope="session")
def public_traces():
    """Return the folder of public traces, or skip: they are too large for the repository."""
    if not (FOLDER / "expected.json").is_file():
        pytest.skip(f"no public traces in {FOLDER} (set TRACEKIT_PUBLIC_TRACES)")
    return FOLDER


@pytest.fixture(scope="session")
def expected(public_traces):
    """Return the independently computed figures of the public traces, by file name."""
    return json.loads((public_traces / "expected.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def sample_trace():
    return REPO / "tests" / "traces" / "cpu_llama_lora" / "rank0.json.gz"


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Return a folder that all workers of this session share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def opened(shared_folder):
    """Return a function that opens a trace read-only, ingested once for all workers."""
    traces = {}
    cache = shared_folder / "stores"
    cache.mkdir(exist_ok=True)

    def open_once(path):
        if path not in traces:
            name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
            with pytest.MonkeyPatch.context() as patch, alone(cache / f"{name}.lock"):
                patch.setenv("TRACEKIT_CACHE_DIR", str(cache))
                traces[path] = tracekit.open(path)
        return traces[path]

    yield open_once
    for trace in traces.values():
        trace.close()


@pytest.fixture(scope="session")
def keep_stores(opened):
    """Return a function that fills a cache with the stores of traces.

    It takes the folder of the cache and the paths of the traces.
    """

    def keep(cache, *paths):
        for path in paths:
            cache.mkdir(parents=True, exist_ok=True)
            store = opened(path).store_path
            shutil.copyfile(store, cache / store.name)

    return keep


@pytest.fixture(scope="session")
def answered(opened):
    """Return a function that returns the results of the trace at a path, each computed once.

    Results of only one trace are cached at a time.
    """
    held = {}

    def answers_of(path):
        if path not in held:
            held.clear()
            held[path] = Answers(opened(path))
        return held[path]

    return answers_of


# Commands that start processes, use the terminal, or serve.
_OF_PROCESSES = {"bench", "browse", "collect", "mcp", "sweep", "view"}

# Environment variables that a process reads only once.
_READ_ONCE = ("PYTHONPATH", "AWS_")


@pytest.fixture
def cli(tmp_path, keep_stores):
    """Return a function that runs a `tracekit` command with the cache of one test.

    The cache already holds the stores of bundled runs that a command names. A command runs in this
    process unless it starts processes or depends on variables that a process reads once; `is_here`
    overrides that. The keyword arguments `stdin`, `env` (added to the environment), and `cwd`
    describe the process.
    """
    command = Path(sys.executable).with_name("tracekit")
    if not command.exists():
        pytest.fail(f"{command} is missing: install the package (pip install -e '.[dev]')")
    samples = {str(path): path for path in (*SAMPLES, MADE_UP)}

    def run(*args, stdin=None, env=None, cwd=None, is_here=False):
        words = [*map(str, args)]
        keep_stores(tmp_path / "cache", *(samples.pop(word) for word in words if word in samples))
        # Concurrent tests set a width.
        own = ("TRACEKIT_", "COLUMNS")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        environment = {**inherited, "TRACEKIT_CACHE_DIR": str(tmp_path / "cache"), **(env or {})}
        needs_process = _OF_PROCESSES.intersection(words[:1]) or any(
            name.startswith(_READ_ONCE) for name in env or {}
        )
        if is_here or not needs_process:
            return run_here(words, environment, cwd or tmp_path, stdin or "")
        done = subprocess.run(
            [str(command), *words],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            env=environment,
            cwd=cwd or tmp_path,
            timeout=120,
            check=False,
        )
        return CliResult(done.stdout, done.stderr, done.returncode)

    return run


@pytest.fixture
def tiny_trace(tmp_path):
    """Return a function that writes a trace of a few events to a file.

    It takes a list of events, or the raw text or bytes of the file. A file name that ends in `.gz`
    is compressed; other keywords become top-level keys next to `traceEvents`.
    """

    def write(content, name="trace.json", **top_level):
        if isinstance(content, bytes):
            data = content
        elif isinstance(content, str):
            data = content.encode()
        else:
            data = json.dumps({**top_level, "traceEvents": list(content)}).encode()
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the folder of a cache for this test, with its own temporary files."""
    folder, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(folder))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def kernels(tiny_trace):
    return tiny_trace([span("kernel", "k", at, at + 1, 7, pid=0) for at in range(0, 20, 2)])


@pytest.fixture
def make_run(tmp_path):
    """Return a function that creates a run folder from a name, requests, and manifest members.

    By default, a pre-training run. `requests` and `benchmarks` are dicts or the raw lines of
    `requests.jsonl` and `benchmarks.jsonl`; `into` is a folder below the test's.
    """

    def make(name, requests=None, *, benchmarks=None, into=".", **members):
        folder = tmp_path / into / name
        folder.mkdir(parents=True)
        known = {
            "run_id": name,
            "tracekit_version": "0.1.0",
            "created_at": "2026-01-31T12:00:00Z",
            "stage": "pretrain",
            "engine": "deepspeed",
        }
        (folder / "run.json").write_text(json.dumps(known | members))
        for what, given in (("requests", requests), ("benchmarks", benchmarks)):
            if given is not None:
                lines = [line if isinstance(line, str) else json.dumps(line) for line in given]
                (folder / f"{what}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return folder

    return make


@pytest.fixture
def make_bench(make_run):
    """Return a function that makes a run folder of microbenchmarks: its name and its points.

    Points are dicts or the raw lines of `benchmarks.jsonl`; keywords are members of every point.
    Without `created_at` it has no manifest.
    """

    def make(name, points, *, created_at="2026-01-31T12:00:00+00:00", **members):
        known = {"outcome": "ok", "timer": "cuda_event", "sample_ns": [1.0]} | members
        lines = [
            point if isinstance(point, str) else {"bench_id": number, **known, **point}
            for number, point in enumerate(points)
        ]
        manifest = {"stage": "bench", "engine": "torch", "created_at": created_at}
        folder = make_run(name, benchmarks=lines, **manifest)
        if created_at is None:
            (folder / "run.json").unlink()
        return folder

    return make
