"""Engines that answer over HTTP: attach or launch, load, profile, pick up the traces."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracekit.collectors.load_generator import LoadGenerator
from tracekit.collectors.load_plan import LoadPlan, LoadProgress, LoadResult, Progress, Prompt
from tracekit.collectors.server_process import LOG_NAME, ServerProcess
from tracekit.collectors.trace_pickup import TraceFolder

from tracekit.errors import UsageError, WorkloadError

from ._dialect import Dialect
from ._engine import EngineFacts
from ._sse import SseReader

_ATTACH_TIMEOUT_S = 10.0
_LAUNCH_TIMEOUT_S = 600.0
_TRACE_TIMEOUT_S = 600.0
_ASK_TIMEOUT_S = 30.0
# For a file system that shows late what another machine has written.
_WRITTEN_TIMEOUT_S = 15.0
_POLL_S = 0.2
# The key that OpenAI's own clients read; it is sent, and written nowhere.
_KEY_VARIABLE = "OPENAI_API_KEY"


class HttpEngine:
    """One engine behind a URL, as `serve` wants an engine.

    Args:
        dialect: how to talk to it.
        values: the arguments.

    Raises:
        UsageError: an argument has the wrong form.
    """

    def __init__(self, dialect: Dialect, values: Mapping[str, object]) -> None:
        self._dialect = dialect
        self._url = _base_url(str(values.get("url") or dialect.default_url))
        self._launch = values.get("launch")
        folder = values.get("trace_dir")
        self._trace_dir = None if folder is None else Path(str(folder)).absolute()
        default_s = _LAUNCH_TIMEOUT_S if self._launch is not None else _ATTACH_TIMEOUT_S
        self._start_timeout_s = _seconds(values, "startup_timeout", default_s)
        self._trace_timeout_s = _seconds(values, "trace_timeout", _TRACE_TIMEOUT_S)
        dialect.extra_body = _extra_body(values.get("request_body"))
        size = values.get("vocab_size")
        self._vocabulary_size = None if size is None else int(str(size))
        name = values.get("served_model")
        dialect.model_name = None if name is None else str(name)
        self._server: ServerProcess | None = None
        self._facts = EngineFacts()
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def name(self) -> str:
        """The engine's name as `--engine` takes it."""
        return self._dialect.name

    def start(self, folder: Path, echo: Callable[[str], None]) -> EngineFacts:
        """Launch the server or find it, wait until it is healthy, and ask it about itself."""
        if self._launch is not None:
            self._start_server(str(self._launch), folder, echo)
        self._wait_for_health(echo)
        facts = self._dialect.facts(self._get_json)
        takes_ids = self._dialect.takes_token_ids
        if takes_ids is None:
            takes_ids = self._accepts_token_ids()
        server = {"url": self._url, "launch": self._launch, **facts.server}
        self._facts = replace(
            facts,
            server=server,
            vocabulary_size=self._vocabulary_size or facts.vocabulary_size,
            count_tokens=None if takes_ids else self._count_tokens,
        )
        return self._facts

    def run(self, plan: LoadPlan, folder: Path, progress: Progress) -> LoadResult:
        """Carry out a load, and once more for a profile; see `ServingEngine.run`."""
        trace_dir, note = self._plan_profile(plan, folder)
        traces = TraceFolder(trace_dir, self._dialect.trace_glob, self._dialect.trace_order)
        generator = LoadGenerator(
            self._dialect,
            self._url,
            plan,
            progress,
            start_call=self._dialect.start_call(trace_dir) if note is None else None,
            stop_timeout_s=self._trace_timeout_s,
            headers=self._headers(),
        )
        result: LoadResult = generator.run()
        result.profile_note = result.profile_note or note
        if result.window_end_ns is not None and not result.interrupted:
            self._take_traces(traces, result, folder, progress)
        code = None if self._server is None else self._server.exit_code
        if code is not None:
            result.notes.append(
                f"the server ended during the load with exit code {code}; its log is "
                f"logs/{LOG_NAME}"
            )
        return result

    def close(self) -> None:
        """End the server, if it was launched."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _start_server(self, command: str, folder: Path, echo: Callable[[str], None]) -> None:
        if self._is_healthy() is None:
            raise WorkloadError(
                f"--launch: something already answers at {self._url}",
                hint="leave out --launch to use it, or choose another port (--url)",
            )
        traces = self._own_trace_dir(folder)
        traces.mkdir(parents=True, exist_ok=True)
        variable = self._dialect.trace_variable
        echo(f"starting {command}")
        self._server = ServerProcess(
            command,
            folder / "logs" / LOG_NAME,
            traces,
            {} if variable is None else {variable: str(traces)},
        )

    def _own_trace_dir(self, folder: Path) -> Path:
        """Return where a server that takes its folder from us is to write traces."""
        return self._trace_dir or folder / ".work" / "traces"

    def _wait_for_health(self, echo: Callable[[str], None]) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        is_told = False
        while True:
            problem = self._is_healthy()
            if problem is None:
                return
            server = self._server
            if server is not None and server.exit_code is not None:
                raise WorkloadError(
                    f"--launch: the server ended with exit code {server.exit_code} before it was "
                    f"ready: {server.last_words() or 'it said nothing'}"
                )
            if time.monotonic() >= deadline:
                hint = "start the server first, or let tracekit do it with --launch"
                if server is not None:
                    hint = f"its last words: {server.last_words() or 'none'}"
                raise WorkloadError(
                    f"{self._url}: no healthy {self.name} server after "
                    f"{self._start_timeout_s:g} s: {problem}",
                    hint=hint,
                )
            if not is_told:
                is_told = True
                echo(f"waiting for {self._url}{self._dialect.health_path}")
            time.sleep(_POLL_S)

    def _is_healthy(self) -> str | None:
        """Return what keeps the server from being healthy, or None."""
        status, body = self._ask("GET", self._dialect.health_path)
        if status is not None and 200 <= status < 300:
            return None
        return _one_line(body) if status is None else f"it answers {status} {_one_line(body)}"

    def _plan_profile(self, plan: LoadPlan, folder: Path) -> tuple[Path, str | None]:
        """Return where traces will be, and why there will be no profile, if so."""
        nowhere = folder / ".work" / "traces"
        if not plan.profile.is_wanted:
            return nowhere, "no profile: --no-profile"
        if not self._facts.can_profile or self._dialect.start_call(None) is None:
            return nowhere, self._facts.profile_note or f"no profile: {self.name} offers none"
        if self._server is not None or self._dialect.takes_trace_folder:
            own = self._own_trace_dir(folder)
            own.mkdir(parents=True, exist_ok=True)
            return own, None
        if self._trace_dir is None and self._dialect.writes_traces:
            return nowhere, (
                "no profile: --trace-dir must say where the server writes its traces "
                f"({self._dialect.trace_variable})"
            )
        return self._trace_dir or nowhere, None

    def _take_traces(
        self, traces: TraceFolder, result: LoadResult, folder: Path, progress: Progress
    ) -> None:
        if not self._dialect.writes_traces:
            result.profile_note = result.profile_note or self._facts.profile_note
            return
        parallel = self._facts.parallel
        began = time.monotonic()

        def tick() -> None:
            elapsed_ns = round((time.monotonic() - began) * 1e9)
            progress(LoadProgress("trace", 0, 0, 0, 0, 0, elapsed_ns))

        expected = parallel.world_size // parallel.node_count or None
        patience_s = self._trace_timeout_s
        if self._dialect.has_written_when_stopped:
            patience_s = min(patience_s, _WRITTEN_TIMEOUT_S)
        try:
            picked = traces.collect(folder, expected, patience_s, tick)
        except KeyboardInterrupt:
            result.interrupted = True
            return
        result.traces = picked.traces
        notes = [note for note in (result.profile_note, picked.note) if note]
        result.profile_note = "; ".join(notes) or None

    def _accepts_token_ids(self) -> bool:
        """Find out by a request of one token whether a prompt may be token ids."""
        prompt = Prompt(4, token_ids=[5, 6, 7, 8])
        status, _ = self._ask("POST", self._dialect.generate_path, self._body(prompt))
        return status == 200

    def _count_tokens(self, text: str) -> int | None:
        """Ask for one new token, to see how many tokens the engine counts in a text."""
        body = self._body(Prompt(0, text=text))
        status, answer = self._ask("POST", self._dialect.generate_path, body)
        if status != 200:
            return None
        reader = SseReader()
        for payload in reader.feed(answer.encode()) + reader.rest():
            try:
                event = self._dialect.event(payload)
            except (ValueError, TypeError, AttributeError, LookupError):
                return None
            if event.prompt_token_count is not None:
                return event.prompt_token_count
        return None

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        return {**self._dialect.body(prompt, 1), **self._dialect.extra_body}

    def _get_json(self, path: str) -> Any:
        status, body = self._ask("GET", path)
        if status != 200:
            return None
        try:
            return json.loads(body)
        except ValueError:
            return None

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int | None, str]:
        """Make a call outside of the load; gives status and text, or None and the reason."""
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **self._headers()},
        )
        try:
            with self._opener.open(request, timeout=_ASK_TIMEOUT_S) as answer:
                return answer.status, answer.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode("utf-8", "replace")
        except urllib.error.URLError as error:
            reason = error.reason
            return None, str(getattr(reason, "strerror", None) or reason)
        except (OSError, ValueError) as error:
            # A connection that broke, or no HTTP at all.
            return None, str(error) or type(error).__name__

    def _headers(self) -> dict[str, str]:
        key = os.environ.get(_KEY_VARIABLE)
        return {"Authorization": f"Bearer {key}"} if key else {}


def _base_url(text: str) -> str:
    """Return the server's address without a path that the dialect adds itself."""
    url = text.strip().rstrip("/").removesuffix("/v1")
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise UsageError(f"--url {text!r} is no address of a server", hint="http://HOST:PORT")
    return url


def _extra_body(text: object) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(str(text))
    except ValueError as error:
        raise UsageError(f"--request-body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("--request-body is no JSON object")
    return value


def _seconds(values: Mapping[str, object], name: str, default_s: float) -> float:
    value = values.get(name)
    seconds = default_s if value is None else float(str(value))
    if seconds <= 0:
        raise UsageError(f"--{name.replace('_', '-')} is {seconds:g}, and must be more than 0")
    return seconds


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
