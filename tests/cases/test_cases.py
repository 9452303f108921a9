"""Tiny traces, questions and expected rows: the form is described in README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import Event, call, kernel, process, span, thread

import tracekit

FILES = sorted(Path(__file__).parent.glob("*.case"))
DEVICE = {"kernel": "kernel", "copy": "gpu_memcpy", "memset": "gpu_memset"}
HOST = {"op": "cpu_op", "range": "user_annotation", "python": "python_function"}
NAMED = {
    "call": ("cuda_runtime", ""),
    "module": ("python_function", "nn.Module: "),
    "node": ("cpu_op", "autograd::engine::evaluate_function: "),
}
ARGUMENTS = {"seq": "Sequence number", "fwd": "Fwd thread id", "id": "External id"}
LITERALS = {"NULL": None, "true": True, "false": False}


@dataclass
class Question:
    """An analysis with parameters, or SQL; the columns to compare, and their rows."""

    text: str
    rows: list[list[Any]] = field(default_factory=list)


@dataclass
class Case:
    """A trace and what is asked of it."""

    name: str
    events: list[Event] = field(default_factory=list)
    top_level: dict[str, Any] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


def cases_in(text: str) -> Iterator[Case]:
    head, *blocks = re.split(r"^=== ", text, flags=re.MULTILINE)
    defined = re.findall(r"^define (\w+) = (.*)$", head, re.MULTILINE)
    for block in blocks:
        block = filled_in(block, defined)
        name, rest = block.split("\n", 1)
        name, words = re.fullmatch(r"(.*?)(?: with ([A-Z ]+))?", name).groups("")
        given = re.findall(r"^with (.*)$", rest, re.MULTILINE)
        body = re.sub(r"^with .*\n", "", rest, flags=re.MULTILINE)
        for values in map(words_of, given or [""]):
            filled = filled_in(body, zip(words.split(), values, strict=True))
            yield case_of(" ".join([name, *values]), filled)


def filled_in(text: str, values: Iterable[tuple[str, str]]) -> str:
    for word, value in values:
        text = re.sub(rf"\b{word}\b", value.replace("\\", r"\\"), text)
    return text


def case_of(name: str, text: str) -> Case:
    case = Case(name)
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("--- "):
            case.questions.append(Question(line[4:]))
        elif case.questions:
            case.questions[-1].rows.append([cell(word) for word in words_of(line)])
        elif line.startswith("json "):
            case.events.append(json.loads(line[5:]))
        elif line.startswith("top "):
            case.top_level |= dict(argument(word) for word in words_of(line)[1:])
        else:
            case.events += events_of(words_of(line))
    return case


def words_of(line: str) -> list[str]:
    """Split a line at spaces outside of double quotes, which stay."""
    return re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+', line)


def plain(word: str) -> str:
    return str(json.loads(word)) if word.startswith('"') else word


def number(word: str) -> float:
    return float(word) if "." in word else int(word)


def argument(word: str) -> tuple[str, Any]:
    """Return name and value of `NAME=VALUE`; what is no JSON is text."""
    name, _, value = word.partition("=")
    name = ARGUMENTS.get(name, plain(name))
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def events_of(words: list[str]) -> list[Event]:
    """Return the events that a line stands for."""
    kind, *rest = words
    if kind == "process":
        return process(int(rest[0]), *map(plain, rest[1:]))
    if kind == "thread":
        return [thread(int(rest[0]), int(rest[1]), plain(rest[2]))]
    numbers = [int(word[1:]) for word in rest if re.fullmatch(r"#\d+", word)]
    link = {"correlation": numbers[0]} if numbers else {}
    given = dict(argument(word) for word in rest if re.match(r'("[^"]*"|\w+)=', word))
    (times,) = (word for word in rest if re.fullmatch(r"-?[\d.]+\.\.-?[\d.]+", word))
    start, end = map(number, times.split("..", 1))
    name = "cudaLaunchKernel" if rest[0] == times else plain(rest[0])
    if kind == "launch":
        began, kernel_name = number(rest[1]), plain(rest[2])
        return [
            span("cpu_op", name, began, began + 5),
            call(began + 1, began + 2, link["correlation"]),
            kernel(kernel_name, start, end, link["correlation"], **given),
        ]
    if kind == "backward":
        around = events_of(["node", *rest, "fwd=1"])
        return [*around, span("cpu_op", name, start + 1, end - 1, **around[0]["args"])]
    if kind in DEVICE:
        return [kernel(name, start, end, **link, **given) | {"cat": DEVICE[kind]}]
    category, prefix = NAMED.get(kind, (HOST.get(kind, plain(kind)), ""))
    place = {key: given.pop(key) for key in ("pid", "tid") if key in given}
    event = span(category, prefix + name, start, end, **place, **link, **given)
    return [{key: value for key, value in event.items() if value != "none"}]


def cell(word: str) -> Any:
    """Return a value of a row."""
    if word in LITERALS:
        return LITERALS[word]
    if word.startswith("["):
        return json.loads(word)
    return number(word.replace("_", "")) if re.fullmatch(r"-?[\d_.]+", word) else plain(word)


def rounded(value: Any) -> Any:
    """Return a value with the six places that a case may write."""
    return round(value, 6) if isinstance(value, float) else value


def answer(trace: tracekit.Trace, rank: int, question: str) -> list[list[Any]]:
    """Return the rows of a case, the trace of this rank."""
    if question.startswith(("SELECT ", "FROM ", "WITH ")):
        ((trace_id,),) = trace.sql(f"SELECT trace_id FROM trace WHERE rank = {rank}").rows
        return [[*row] for row in trace.sql(question.replace("$case", str(trace_id))).rows]
    asked, _, columns = question.partition(": ")
    name, *params = words_of(asked)
    rows = trace.query(name, **dict(map(argument, params))).to_dicts()
    return [[row[key] for key in columns.split(", ")] for row in rows if row["rank"] == rank]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cases(path: Path, tmp_path: Path) -> None:
    cases = list(cases_in(path.read_text("utf-8")))
    for rank, case in enumerate(cases):
        info = {"rank": rank, "world_size": len(cases)}
        document = {"distributedInfo": info, **case.top_level, "traceEvents": case.events}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document), "utf-8")
    wrong = []
    with tracekit.open(tmp_path, cache=False) as trace:
        for rank, case in enumerate(cases):
            assert case.questions, case.name
            for question in case.questions:
                found = [[*map(rounded, row)] for row in answer(trace, rank, question.text)]
                if found != question.rows:
                    rows = "\n".join(" ".join(map(json.dumps, row)) for row in found)
                    wrong.append(f"{case.name}\n--- {question.text}\n{rows}")
    assert not wrong, "these rows came:\n\n" + "\n\n".join(wrong)
