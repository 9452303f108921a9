"""Differences between serving engines over HTTP: one dialect per engine.

Servers are not trusted: their text, numbers, and JSON are validated.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from tracekit.manifest import Model
from tracekit.redaction import mask_json
from tracekit.small_files import parse_json, read_small

from ..engine import EngineFacts
from ..plan import Prompt

GetJson = Callable[[str], Any]
"""Function that requests a path and returns the JSON answer, or None."""

MAX_RANKS = 65_536
_LARGEST_COUNT = 2**31 - 1
_DEEPEST = 32
_LONGEST_KEPT_TEXT = 4096
_NAME_LENGTH = 200
_MAX_KEPT_BYTES = 1 << 16
_ERROR_LENGTH = 400


class Event(Struct):
    """Content of one event; `token_count` is None if it is unknown."""

    token_count: int | None = 0
    is_last: bool = False
    error: str | None = None
    engine_request_id: str | None = None
    prompt_token_count: int | None = None
    output_token_count: int | None = None


class Call(Struct, frozen=True):
    method: str
    path: str
    body: Mapping[str, Any] | None = None


class Dialect(ABC):
    """The HTTP API of one kind of engine.

    `takes_token_ids` is None if only a test request can show whether prompts may be token ids.
    `has_written_when_stopped` means that the server writes the traces before it answers the stop
    call. `trace_variable` passes the trace folder to a launched server. `facts` may set
    `writes_traces` to False. `extra_body` has the user's additional members for the JSON of
    requests.
    """

    name: ClassVar[str]
    default_url: ClassVar[str]
    generate_path: ClassVar[str]
    health_path: ClassVar[str] = "/health"
    takes_token_ids: ClassVar[bool | None] = True
    start_profile: ClassVar[Call | None] = None
    stop_profile: ClassVar[Call | None] = None
    takes_trace_folder: ClassVar[bool] = False
    has_written_when_stopped: ClassVar[bool] = False
    trace_variable: ClassVar[str | None] = None
    trace_glob: ClassVar[str] = "*.json*"

    def __init__(self) -> None:
        self.model_name: str | None = None
        self.writes_traces = True
        self.extra_body: dict[str, Any] = {}

    @abstractmethod
    def body(self, prompt: Prompt, max_new_token_count: int) -> dict[str, Any]:
        """Return the JSON body of a request for an exact number of greedily decoded tokens."""

    @abstractmethod
    def event(self, payload: bytes) -> Event:
        """Parse the payload of one event; raise `ValueError` if it violates the protocol."""

    @abstractmethod
    def facts(self, get: GetJson) -> EngineFacts:
        """Query the engine's properties; unreported ones stay None."""

    def is_up(self, status: int) -> bool:
        return 200 <= status < 300

    def health_hint(self) -> str | None:
        return None

    def start_call(self, trace_folder: Path | None) -> Call | None:
        del trace_folder
        return self.start_profile

    def refusal(self, status: int, text: str) -> str:
        return f"{self.name} refused to profile: {status} {text}".rstrip()

    def trace_order(self, file_name: str) -> tuple[int, ...] | None:
        """Return the sort key of a trace by rank, or None for files without a rank."""
        numbers = re.findall(r"\d+", file_name)
        return (int(numbers[0]) if numbers else 0,)

    def encoded(self, prompt: Prompt, max_new_token_count: int) -> bytes:
        return json.dumps({**self.body(prompt, max_new_token_count), **self.extra_body}).encode()

    def read_event(self, payload: bytes) -> Event:
        try:
            event = self.event(payload)
        except (TypeError, AttributeError, LookupError) as error:
            raise ValueError(str(error)) from error
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        for name in ("token_count", "prompt_token_count", "output_token_count"):
            value = getattr(event, name)
            if value is not None and not (type(value) is int and 0 <= value <= _LARGEST_COUNT):
                raise ValueError(f"its {name} is {plain(repr(value), 40)}")
        if event.engine_request_id is not None:
            if not isinstance(event.engine_request_id, str):
                raise ValueError("its id is not a string")
            event.engine_request_id = plain(event.engine_request_id, _NAME_LENGTH)
        if event.error is not None:
            event.error = plain(str(event.error), _ERROR_LENGTH) or "an error without a message"
        return event


def read_json(payload: bytes) -> dict[str, Any]:
    # Decode here, because `json.loads` would first detect the encoding.
    value = json.loads(payload.decode())
    if not isinstance(value, dict):
        raise ValueError("the event is not a JSON object")
    return value


def error_text(value: object) -> str:
    while isinstance(value, dict):
        inner = next((value[key] for key in ("message", "error", "detail") if value.get(key)), None)
        if inner is None:
            break
        value = inner
    return value if isinstance(value, str) else json.dumps(value)


def without_secrets(info: Mapping[str, Any]) -> dict[str, Any]:
    masked: dict[str, Any] = mask_json(dict(info))
    size = len(json.dumps(masked))
    if size > _MAX_KEPT_BYTES:
        return {"left_out": f"{size:,} bytes of server description"}
    return masked


def local_vocabulary_size(model_folder: object) -> int | None:
    if not isinstance(model_folder, str):
        return None
    try:
        path = Path(model_folder) / "config.json"
        config = parse_json(read_small(path))
    except (OSError, ValueError):
        return None
    text = config.get("text_config", config) if isinstance(config, dict) else {}
    return a_count(text.get("vocab_size")) if isinstance(text, dict) else None


def named_model(name: object) -> Model | None:
    known = a_name(name)
    return None if known is None else Model(name=known)


def plain(text: str, length: int) -> str:
    """Return text as one line, with characters that affect its display replaced."""
    short = " ".join(text[: 4 * length].split())[:length]
    if short.isascii() and short.isprintable():
        return short
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character)[0] == "C" else character
        for character in short
    )


def a_name(value: object) -> str | None:
    return plain(value, _NAME_LENGTH) or None if isinstance(value, str) else None


def a_count(value: object, most: int = _LARGEST_COUNT) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= most else None


def an_answer(body: bytes) -> Any:
    """Parse a server's description of itself; make its strings safe to display."""
    try:
        value = json.loads(body, parse_constant=lambda _: None, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return _trimmed(value, 0)


def _trimmed(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        return {plain(key, _NAME_LENGTH): _trimmed(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_trimmed(item, depth + 1) for item in value]
    return plain(value, _LONGEST_KEPT_TEXT) if isinstance(value, str) else value


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
