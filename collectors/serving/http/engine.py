"""Runs a load on an HTTP engine: attach or launch, load, profile, collect traces.

Calls outside the load have limits on answer size and time. They follow no redirect, because the API
key is only for this server.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import resource
import shlex
import tempfile
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import psutil
from msgspec.structs import replace

from tracekit.errors import UsageError, WorkloadError
from tracekit.redaction import Redactor, mask_text

from ...process.child import Child, end
from ...process.ending import last_lines
from ..engine import Echo, EngineFacts
from ..plan import LoadPlan, LoadProgress, LoadResult, Progress, Prompt
from .answer import SseReader
from .client import TEXT_LENGTH, Answer, HttpClient
from .dialect import Dialect, an_answer, plain
from .generator import LoadGenerator
from .trace_pickup import TraceFolder

# Variable of OpenAI's clients. The key is sent to the server but never written.
_KEY_VARIABLE = "OPENAI_API_KEY"

_ATTACH_TIMEOUT_S = 10.0
_LAUNCH_TIMEOUT_S = 600.0
_TRACE_TIMEOUT_S = 600.0
_END_TIMEOUT_S = 2.0
_ASK_TIMEOUT_S = 30.0
# Total time limit for queries between the server's start and the load.
_SETUP_TIMEOUT_S = 180.0
_ANSWER_BYTES = 2 << 20
# Network file systems may show files written by another machine with a delay.
_WRITTEN_TIMEOUT_S = 15.0
_POLL_S = 0.2
# Number of open files in addition to the connections.
_OTHER_FILES = 128

_OPEN_NOTE = (
    "the server listens on all interfaces, so other machines can use it; add --host "
    "127.0.0.1 to --launch (TGI: --hostname)"
)


class HttpEngine:
    def __init__(
        self, dialect_type: type[Dialect], values: Mapping[str, Any], redactor: Redactor
    ) -> None:
        self._dialect = dialect = dialect_type()
        self._url, credentials = _base_url(values.get("url") or dialect.default_url)
        self._client = HttpClient(self._url, _key_headers(credentials))
        self._redactor = redactor
        self._launch: str | None = values.get("launch")
        folder: Path | None = values.get("trace_dir")
        self._trace_dir = None if folder is None else folder.absolute()
        default_s = _LAUNCH_TIMEOUT_S if self._launch is not None else _ATTACH_TIMEOUT_S
        self._start_timeout_s: float = values.get("startup_timeout", default_s)
        self._trace_timeout_s: float = values.get("trace_timeout", _TRACE_TIMEOUT_S)
        dialect.extra_body = _extra_body(values.get("request_body"))
        self._vocabulary_size: int | None = values.get("vocab_size")
        dialect.model_name = values.get("served_model")
        self._server: ServerProcess | None = None
        self._facts = EngineFacts()
        self._notes: list[str] = []
        self._setup_end_s = 0.0

    def start(self, folder: Path, echo: Echo) -> EngineFacts:
        if self._launch is not None:
            self._start_server(self._launch, folder, echo)
        self._wait_for_health(echo)
        if self._server is not None and listens_everywhere(self._client.port):
            self._notes.append(_OPEN_NOTE)
        self._setup_end_s = time.monotonic() + _SETUP_TIMEOUT_S
        facts = self._dialect.facts(self._get_json)
        takes_ids = self._dialect.takes_token_ids
        if takes_ids is None:
            # Only a test request can show whether the server accepts token ids.
            takes_ids = self._generate(Prompt(4, token_ids=[5, 6, 7, 8])) is not None
        launch = None if self._launch is None else mask_text(self._launch)
        self._facts = replace(
            facts,
            server={**facts.server, "url": self._url, "launch": launch},
            vocabulary_size=self._vocabulary_size or facts.vocabulary_size,
            count_tokens=None if takes_ids else self._count_tokens,
        )
        return self._facts

    def run(self, plan: LoadPlan, folder: Path, progress: Progress) -> LoadResult:
        raise_file_limit(min(plan.concurrency or len(plan.prompts), len(plan.prompts)))
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
        result = generator.run()
        result.notes[:0] = self._notes
        result.profile_note = result.profile_note or note
        if not result.interrupted:
            result.failure = result.failure or self._loss(result)
        if result.window_end_ns is not None and not result.interrupted and not result.failure:
            self._take_traces(traces, result, folder, progress)
        return result

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _start_server(self, command: str, folder: Path, echo: Echo) -> None:
        if self._problem(_ASK_TIMEOUT_S) is None:
            raise WorkloadError(
                f"--launch: another server already answers at {self._url}",
                hint="omit --launch to use it, or choose another port (--url)",
            )
        traces = self._own_trace_dir(folder)
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
        trace_dir = self._trace_dir or folder / ".work" / "traces"
        trace_dir.mkdir(parents=True, exist_ok=True)
        return trace_dir

    def _ended(self) -> str | None:
        how = None if self._server is None else self._server.exit_description
        return None if how is None else f"the server ended with {how} (its log is logs/{LOG_NAME})"

    def _loss(self, result: LoadResult) -> str | None:
        failed = [r for r in result.records if r.outcome not in ("ok", "cancelled")]
        broken = [
            r for r in failed if r.outcome in ("refused", "broken_stream") and not r.is_warmup
        ]
        if broken and result.lost_ns is None:
            result.lost_ns = min(record.end_ns or 0 for record in broken)
        how = self._ended()
        if how is not None or not failed:
            return how
        problem = self._problem(_ATTACH_TIMEOUT_S)
        if problem is not None:
            if self._server is not None:
                # The server may be about to exit.
                self._server.wait(_END_TIMEOUT_S)
                how = self._ended()
            return how or f"the server was lost during the load: {problem}"
        count = sum(record.outcome == "refused" for record in broken)
        if count:
            outcome = "request" if count == 1 else "requests"
            return f"{count} {outcome} found no server, which is available again"
        return None

    def _wait_for_health(self, echo: Echo) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        has_reported = False
        left_s = self._start_timeout_s
        while (problem := self._problem(left_s)) is not None:
            server = self._server
            how = None if server is None else server.exit_description
            if server is not None and how is not None:
                raise WorkloadError(
                    f"--launch: the server ended with {how} before it was ready: "
                    f"{server.log_tail() or 'no output'}"
                )
            left_s = deadline - time.monotonic() - _POLL_S
            if left_s <= 0:
                hint = "start the server first, or pass --launch"
                if server is not None:
                    hint = f"end of its log: {server.log_tail() or 'empty'}"
                else:
                    hint = self._dialect.health_hint() or hint
                raise WorkloadError(
                    f"{self._url}: no healthy {self._dialect.name} server after "
                    f"{self._start_timeout_s:g} s: {problem}",
                    hint=hint,
                )
            if not has_reported:
                has_reported = True
                echo(f"waiting for {self._url}{self._dialect.health_path}")
            time.sleep(_POLL_S)

    def _problem(self, limit_s: float) -> str | None:
        answer = self._ask("GET", self._dialect.health_path, b"", limit_s)
        if answer.problem is not None:
            return answer.problem
        if self._dialect.is_up(answer.status):
            return None
        text = plain(answer.text(), TEXT_LENGTH)
        if 300 <= answer.status < 400:
            elsewhere = plain(mask_text(answer.headers.get("location", "")), TEXT_LENGTH)
            text = f"(a redirect to {elsewhere or 'nowhere'}, which is not followed)"
        return f"it answers {answer.status} {text}".rstrip()

    def _plan_profile(self, plan: LoadPlan, folder: Path) -> tuple[Path, str | None]:
        dialect, nowhere = self._dialect, folder / ".work" / "traces"
        if not plan.profile.is_wanted:
            return nowhere, "no profile: --no-profile"
        if not self._facts.can_profile or dialect.start_call(None) is None:
            return (
                nowhere,
                self._facts.profile_note or f"no profile: {dialect.name} has no profiler",
            )
        if self._server is not None or dialect.takes_trace_folder:
            return self._own_trace_dir(folder), None
        if self._trace_dir is None and dialect.writes_traces:
            return nowhere, (
                "no profile: --trace-dir must be the folder to which the server writes "
                f"its traces ({dialect.trace_variable})"
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
            result.traces, note = traces.collect(folder, expected, patience_s, tick)
        except KeyboardInterrupt:
            result.interrupted = True
            return
        notes = [text for text in (result.profile_note, note) if text]
        result.profile_note = "; ".join(notes) or None

    # Queries before the load, within the remaining setup time.

    def _generate(self, prompt: Prompt) -> bytes | None:
        return self._answer_of(
            "POST", self._dialect.generate_path, self._dialect.encoded(prompt, 1)
        )

    def _count_tokens(self, text: str) -> int | None:
        reader = SseReader()
        try:
            for payload in reader.feed(self._generate(Prompt(0, text=text)) or b"") + reader.rest():
                event = self._dialect.read_event(payload)
                if event.prompt_token_count:
                    return event.prompt_token_count
        except ValueError:
            return None
        return None

    def _get_json(self, path: str) -> Any:
        body = self._answer_of("GET", path)
        try:
            return None if body is None else an_answer(body)
        except ValueError:
            return None

    def _answer_of(self, method: str, path: str, data: bytes = b"") -> bytes | None:
        answer = self._ask(method, path, data, self._setup_end_s - time.monotonic())
        return bytes(answer.data) if answer.problem is None and answer.status == 200 else None

    def _ask(self, method: str, path: str, data: bytes, limit_s: float) -> Answer:
        limit_s = max(0.0, min(limit_s, _ASK_TIMEOUT_S))
        answer = asyncio.run(self._client.ask(method, path, data, limit_s, _ANSWER_BYTES))
        if answer.problem is None and len(answer.data) > _ANSWER_BYTES:
            answer.problem = f"not HTTP: the answer is longer than {_ANSWER_BYTES:,} bytes"
        return answer


def _key_headers(credentials: str | None) -> dict[str, str]:
    key = (os.environ.get(_KEY_VARIABLE) or "").strip()
    if key:
        if not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"{_KEY_VARIABLE} contains characters that are not allowed in a header"
            )
        return {"Authorization": f"Bearer {key}"}
    if credentials is None:
        return {}
    encoded = base64.b64encode(urllib.parse.unquote(credentials).encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


def _base_url(text: str) -> tuple[str, str | None]:
    """Split the `user:password` off a server's address, and drop a `/v1` at its end."""
    url = text.strip().rstrip("/").removesuffix("/v1")
    wrong = UsageError(
        f"--url {mask_text(text)!r} is not the address of a server", hint="http://HOST:PORT"
    )
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:  # also raised for invalid host names
        raise wrong from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise wrong
    credentials, at, _ = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    netloc = shown if port is None else f"{shown}:{port}"
    path = urllib.parse.quote(parts.path, safe="/%:@!$&'()*+,;=~-._")
    return f"{parts.scheme}://{netloc}{path}", credentials if at else None


def _extra_body(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--request-body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("--request-body is not a JSON object")
    return value


def listens_everywhere(port: int) -> bool:
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return False
    return any(
        one.status == psutil.CONN_LISTEN and one.laddr.ip in ("0.0.0.0", "::")
        for one in connections
        if one.laddr and one.laddr.port == port
    )


def raise_file_limit(connection_count: int) -> None:
    needed = connection_count + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise WorkloadError(
            f"{connection_count} requests in flight need {needed} open files, but the "
            f"system allows only {hard}",
            hint="raise the limit with ulimit -Hn, or limit the requests in flight with "
            "--concurrency",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


LOG_NAME = "server.log"
TRACE_FOLDER_FIELD = "{trace_dir}"
"""Placeholder in the command for the trace folder."""

_TERM_S = 15.0
_TAIL_BYTES = 4096


class ServerProcess(Child):
    def __init__(
        self,
        command: str,
        log: Path,
        trace_folder: Path,
        variables: Mapping[str, str],
        redactor: Redactor,
    ) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--launch cannot be split into words: {error}") from error
        if not words:
            raise UsageError("--launch is empty")
        words = [word.replace(TRACE_FOLDER_FIELD, str(trace_folder)) for word in words]
        self._log = log
        self._redactor = redactor
        self._output: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115 - open until the server has ended
            dir=log.parent
        )
        try:
            super().__init__(words, self._output, added=variables)
        except (OSError, ValueError) as error:
            self._output.close()
            reason = getattr(error, "strerror", None) or error
            raise WorkloadError(f"--launch: cannot run {words[0]}: {reason}") from error

    def log_tail(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        # Read more than is shown, because a secret may begin before it.
        begin = max(0, size - _TAIL_BYTES - self._redactor.longest_bytes)
        data = self._redactor.clean_bytes(os.pread(self._output.fileno(), size - begin, begin))
        return last_lines(data[-_TAIL_BYTES:].decode("utf-8", "replace"))

    def stop(self) -> None:
        end([self], _TERM_S)
        with self._output, self._log.open("wb") as log:
            self._output.seek(0)
            self._redactor.copy(self._output, log)
