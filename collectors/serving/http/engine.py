"""Engines that answer over HTTP: attach or launch, load, profile, pick up the traces.

Servers are not trusted. A call outside of the load has a bounded answer and a bounded time in all,
and follows no redirect: the key that goes with it is for this server alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tracekit.errors import WorkloadError
from tracekit.redaction import mask_text

from ...process.server import LOG_NAME, ServerProcess
from ..engine import EngineFacts
from ..load.plan import LoadPlan, LoadProgress, LoadResult, Progress, Prompt
from ..redactor import redactor_of
from .arguments import base_url, extra_body, key_headers, seconds_of
from .client import HttpClient
from .dialect import Dialect
from .exchange import BrokenConnectionError, NotHttpError, connection_problem
from .generator import LoadGenerator
from .listening import listens_everywhere
from .server_values import an_answer, plain
from .sse import SseReader
from .trace_pickup import TraceFolder

_ATTACH_TIMEOUT_S = 10.0
_LAUNCH_TIMEOUT_S = 600.0
_TRACE_TIMEOUT_S = 600.0
_END_TIMEOUT_S = 2.0
_ASK_TIMEOUT_S = 30.0
# All that is asked between the server's coming up and the load.
_SETUP_TIMEOUT_S = 180.0
_ANSWER_BYTES = 2 << 20
# For a file system that shows late what another machine has written.
_WRITTEN_TIMEOUT_S = 15.0
_POLL_S = 0.2
_TEXT_LENGTH = 200


_OPEN_NOTE = (
    "the server listens on all interfaces, so that other machines can use it: a --host 127.0.0.1 "
    "in --launch keeps them out (TGI: --hostname)"
)


class _Reply(NamedTuple):
    """What became of a call: status and body, or no status and the problem."""

    status: int | None
    body: bytes = b""
    problem: str = ""

    def text(self) -> str:
        """Return it in one line."""
        return self.problem or plain(self.body.decode("utf-8", "replace"), _TEXT_LENGTH)


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
        self._url, credentials = base_url(str(values.get("url") or dialect.default_url))
        self._client = HttpClient(self._url, key_headers(credentials))
        self._redactor = redactor_of(values)
        self._launch = values.get("launch")
        folder = values.get("trace_dir")
        self._trace_dir = None if folder is None else Path(str(folder)).absolute()
        default_s = _LAUNCH_TIMEOUT_S if self._launch is not None else _ATTACH_TIMEOUT_S
        self._start_timeout_s = seconds_of(values, "startup_timeout", default_s)
        self._trace_timeout_s = seconds_of(values, "trace_timeout", _TRACE_TIMEOUT_S)
        dialect.extra_body = extra_body(values.get("request_body"))
        size = values.get("vocab_size")
        self._vocabulary_size = None if size is None else int(str(size))
        name = values.get("served_model")
        dialect.model_name = None if name is None else str(name)
        self._server: ServerProcess | None = None
        self._facts = EngineFacts()
        self._notes: list[str] = []
        self._setup_end_s = 0.0

    @property
    def name(self) -> str:
        """The engine's name as `--engine` takes it."""
        return self._dialect.name

    def start(self, folder: Path, echo: Callable[[str], None]) -> EngineFacts:
        """Launch the server or find it, wait until it is healthy, and ask it about itself."""
        if self._launch is not None:
            self._start_server(str(self._launch), folder, echo)
        self._wait_for_health(echo)
        if self._server is not None and listens_everywhere(self._client.address.port):
            self._notes.append(_OPEN_NOTE)
        self._setup_end_s = time.monotonic() + _SETUP_TIMEOUT_S
        facts = self._dialect.facts(self._get_json)
        takes_ids = self._dialect.takes_token_ids
        if takes_ids is None:
            takes_ids = self._accepts_token_ids()
        launch = None if self._launch is None else mask_text(str(self._launch))
        server = {**facts.server, "url": self._url, "launch": launch}
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
        traces = TraceFolder(
            trace_dir, self._dialect.trace_glob, self._dialect.trace_order, self._redactor
        )
        generator = LoadGenerator(
            self._dialect,
            self._client,
            plan,
            progress,
            start_call=self._dialect.start_call(trace_dir) if note is None else None,
            stop_timeout_s=self._trace_timeout_s,
            ended=self._ended,
        )
        result: LoadResult = generator.run()
        result.notes[:0] = self._notes
        result.profile_note = result.profile_note or note
        if not result.interrupted:
            result.failure = result.failure or self._loss(result)
        if result.window_end_ns is not None and not result.interrupted and not result.failure:
            self._take_traces(traces, result, folder, progress)
        return result

    def close(self) -> None:
        """End the server, if it was launched."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _start_server(self, command: str, folder: Path, echo: Callable[[str], None]) -> None:
        if self._is_healthy(_ASK_TIMEOUT_S) is None:
            raise WorkloadError(
                f"--launch: something already answers at {self._url}",
                hint="leave out --launch to use it, or choose another port (--url)",
            )
        traces = self._own_trace_dir(folder)
        traces.mkdir(parents=True, exist_ok=True)
        variable = self._dialect.trace_variable
        echo(f"starting {mask_text(command)}")
        self._server = ServerProcess(
            command,
            folder / "logs" / LOG_NAME,
            traces,
            {} if variable is None else {variable: str(traces)},
            self._redactor,
        )

    def _own_trace_dir(self, folder: Path) -> Path:
        """Return where a server that takes its folder from us is to write traces."""
        return self._trace_dir or folder / ".work" / "traces"

    def _ended(self) -> str | None:
        """Return what a server of ours ended with, if it has."""
        how = None if self._server is None else self._server.how_it_ended
        return None if how is None else f"the server ended with {how} (its log is logs/{LOG_NAME})"

    def _loss(self, result: LoadResult) -> str | None:
        """Return how the server was lost during the load, if it was.

        One that is not ours is asked again if anything went wrong that its end would explain.
        """
        failed = [r for r in result.records if r.outcome not in ("ok", "cancelled")]
        gone = [r for r in failed if r.outcome in ("refused", "broken_stream") and not r.is_warmup]
        if gone and result.lost_ns is None:
            result.lost_ns = min(record.end_ns or 0 for record in gone)
        how = self._ended()
        if how is not None or not failed:
            return how
        problem = self._is_healthy(_ATTACH_TIMEOUT_S)
        if problem is not None:
            if self._server is not None:
                # It may be ending at this very moment.
                self._server.wait(_END_TIMEOUT_S)
                how = self._ended()
            return how or f"the server was lost under the load: {problem}"
        count = sum(record.outcome == "refused" for record in gone)
        if count:
            found = "request" if count == 1 else "requests"
            return f"{count} {found} found no server, which answers again"
        return None

    def _wait_for_health(self, echo: Callable[[str], None]) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        is_told = False
        left_s = self._start_timeout_s
        while True:
            problem = self._is_healthy(left_s)
            if problem is None:
                return
            server = self._server
            how = None if server is None else server.how_it_ended
            if server is not None and how is not None:
                raise WorkloadError(
                    f"--launch: the server ended with {how} before it was ready: "
                    f"{server.last_words() or 'it said nothing'}"
                )
            left_s = deadline - time.monotonic() - _POLL_S
            if left_s <= 0:
                hint = "start the server first, or let tracekit do it with --launch"
                if server is not None:
                    hint = f"its last words: {server.last_words() or 'none'}"
                else:
                    hint = self._dialect.health_hint() or hint
                raise WorkloadError(
                    f"{self._url}: no healthy {self.name} server after "
                    f"{self._start_timeout_s:g} s: {problem}",
                    hint=hint,
                )
            if not is_told:
                is_told = True
                echo(f"waiting for {self._url}{self._dialect.health_path}")
            time.sleep(_POLL_S)

    def _is_healthy(self, limit_s: float) -> str | None:
        """Return what keeps the server from being healthy, or None.

        Args:
            limit_s: how long it may take to answer.
        """
        reply = self._ask("GET", self._dialect.health_path, limit_s=limit_s)
        if reply.status is None:
            return reply.text()
        if self._dialect.is_up(reply.status):
            return None
        return f"it answers {reply.status} {reply.text()}".rstrip()

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
        return self._set_up("POST", self._dialect.generate_path, self._body(prompt)).status == 200

    def _count_tokens(self, text: str) -> int | None:
        """Ask for one new token, to see how many tokens the engine counts in a text."""
        body = self._body(Prompt(0, text=text))
        reply = self._set_up("POST", self._dialect.generate_path, body)
        if reply.status != 200:
            return None
        reader = SseReader()
        try:
            for payload in reader.feed(reply.body) + reader.rest():
                event = self._dialect.read_event(payload)
                if event.prompt_token_count:
                    return event.prompt_token_count
        except ValueError:
            return None
        return None

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        return {**self._dialect.body(prompt, 1), **self._dialect.extra_body}

    def _get_json(self, path: str) -> Any:
        reply = self._set_up("GET", path)
        if reply.status != 200:
            return None
        try:
            return an_answer(reply.body)
        except ValueError:
            return None

    def _set_up(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> _Reply:
        """Ask what is wanted to know before the load, in what is left of the time for that."""
        left_s = self._setup_end_s - time.monotonic()
        return self._ask(method, path, body, limit_s=left_s)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        limit_s: float,
    ) -> _Reply:
        """Make a call outside of the load."""
        limit_s = max(0.0, min(limit_s, _ASK_TIMEOUT_S))
        return asyncio.run(self._call(method, path, body, limit_s))

    async def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None, limit_s: float
    ) -> _Reply:
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._client.call(method, path, body, limit_bytes=_ANSWER_BYTES)
        except TimeoutError:
            return _Reply(None, problem=f"no whole answer within {limit_s:.3g} s")
        except BrokenConnectionError as error:
            return _Reply(None, problem=plain(str(error), _TEXT_LENGTH))
        except NotHttpError as error:
            return _Reply(None, problem=f"no HTTP: {plain(str(error), _TEXT_LENGTH)}")
        except (OSError, UnicodeError) as error:
            return _Reply(None, problem=plain(connection_problem(error), _TEXT_LENGTH))
        if 300 <= answer.status < 400:
            elsewhere = plain(mask_text(answer.headers.get("location", "")), _TEXT_LENGTH)
            problem = f"(a redirect to {elsewhere or 'nowhere'}, which is not followed)"
            return _Reply(answer.status, problem=problem)
        return _Reply(answer.status, answer.body)
