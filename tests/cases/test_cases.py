"""Tiny traces, questions and expected rows: the form is described in README.md."""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from given_rows import analysis_of, rows_of
from msgspec.structs import asdict
from traces_by_hand import call, kernel, memory, process, span, thread

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import names_in
from tracekit.errors import TracekitError

FILES = sorted(Path(__file__).parent.glob("*.case"))
DEVICE = {"kernel": "kernel", "copy": "gpu_memcpy", "memset": "gpu_memset"}
HOST = {"op": "cpu_op", "range": "user_annotation", "python": "python_function"}
NAMED = {
    "call": ("cuda_runtime", ""),
    "module": ("python_function", "nn.Module: "),
    "node": ("cpu_op", "autograd::engine::evaluate_function: "),
}
ARGUMENTS = {
    "seq": "Sequence number",
    "fwd": "Fwd thread id",
    "id": "External id",
    "allocated": "Total Allocated",
    "reserved": "Total Reserved",
}
PEAK_RATES = "peak_rates"
MAX_RANKS = 50
"""Maximum number of cases per run: some analyses match every pair of ranks."""
OF_TRACE = {
    "predict": lambda trace, *changes: predicted(trace.predict(*changes, is_recorded=True)),
    "predict_run": lambda trace, *changes: predicted(trace.predict(*changes)),
    "advise": lambda trace: trace.advise(is_recorded=True).as_result().to_dicts(),
    "advise_run": lambda trace: trace.advise().as_result().to_dicts(),
    "undecided": lambda trace: [asdict(one) for one, _ in trace.advise().undecided],
}
"""Questions that are not analyses; `; ` separates changes."""
LITERALS = {"NULL": None, "true": True, "false": False}


@dataclass
class Question:
    """An analysis with parameters, or SQL; the columns to compare, and their rows."""

    text: str
    rows: list[list[Any]] = field(default_factory=list)

    @property
    def is_of_ranks(self):
        """Whether a rank can be asked for its rows."""
        return self.is_sql or self.is_rule or has_rank(self.name)

    @property
    def is_rule(self):
        return self.name.startswith("advice_")

    @property
    def name(self):
        return words_of(self.text)[0].rstrip(":")

    @property
    def is_sql(self):
        return self.text.startswith(("SELECT ", "FROM ", "WITH "))


@dataclass
class Case:
    """Traces, runs, or rows of analyses, with questions."""

    name: str
    files: dict[str, list[dict]] = field(default_factory=dict)
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    top_level: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)
    given: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)

    @property
    def peak_rates(self):
        """Return the folder of benchmarks without a run, if any."""
        return PEAK_RATES if any(path.startswith(PEAK_RATES) for path in self.lines) else None

    @property
    def is_alone(self):
        """Whether the case is a separate run, not a rank of the run of all cases."""
        is_run = self.runs or self.lines or self.samples or [*self.files] != [""]
        is_rank = "rank" in self.top_level.get("distributedInfo", {})
        return bool(is_run) or is_rank or not all(one.is_of_ranks for one in self.questions)


def has_rank(name):
    return name not in OF_TRACE and "rank" in load_catalog().analysis(name).column_names


def cases_in(text):
    defined = re.findall(r"^define (\w+) = (.*)$", text, re.MULTILINE)
    text = re.sub(r"^define .*\n", "", text, flags=re.MULTILINE)
    _, *blocks = re.split(r"^=== ", text, flags=re.MULTILINE)
    for block in blocks:
        block = filled_in(block, reversed(defined))
        name, rest = block.split("\n", 1)
        name, words = re.fullmatch(r"(.*?)(?: with ([A-Z ]+))?", name).groups("")
        given = re.findall(r"^with (.*)$", rest, re.MULTILINE)
        body = re.sub(r"^with .*\n", "", rest, flags=re.MULTILINE)
        for line in given or [""]:
            values = re.split(r" \|(?: |$)", line) if " |" in line else words_of(line)
            values = [line] if words.isalpha() else values
            filled = filled_in(body, zip(words.split(), values, strict=True))
            yield case_of(" ".join([name, *values]), filled)


def filled_in(text, values):
    for word, value in values:
        text = re.sub(rf"\b{word}\b", value.replace("\\", r"\\"), text)
    return text


def case_of(name, text):
    case = Case(name)
    run, file, columns = "", "", []
    shift = 0
    first = 0
    rows = None
    before, *questions = re.split(r"^--- ", text, flags=re.MULTILINE)
    for line in " ; ".join(lines_of(before)).split(" ; "):
        kind, *words = words_of(line)
        if kind == "given":
            columns = line.partition(": ")[2].split(", ")
            rows = case.given.setdefault(words[0].rstrip(":"), [])
        elif rows is not None:
            rows.append(dict(zip(columns, map(cell, (kind, *words)), strict=True)))
        elif kind == "run":
            run, file = words[0], f"{words[0]}/rank0.json"
            case.runs[run] = dict(map(argument, words[1:]))
        elif kind in ("request", "benchmark"):
            lines = case.lines.setdefault(f"{run or PEAK_RATES}/{kind}s.jsonl", [])
            number_of = {"request": "request_id", "benchmark": "bench_id"}[kind]
            lines.append({number_of: len(lines), **dict(map(argument, words))})
        elif kind == "sample":
            case.samples.append(" ".join(words))
        elif kind == "rank":
            file, shift, first = f"{run}/rank{words[0]}.json".lstrip("/"), 0, 0
            case.files[file] = []
            case.members[file] = dict(map(argument, words[1:]))
        elif kind == "at":
            shift, first = number(words[0]), int(words[1][1:]) if words[1:] else 0
        elif kind == "top":
            case.top_level |= dict(map(argument, words))
        else:
            case.files.setdefault(file, []).extend(later(shift, first, events_of(line)))
    for question in questions:
        asked, *answers = lines_of(question)
        found = [[cell(word) for word in words_of(line)] for line in answers]
        case.questions.append(Question(asked, found))
    return case


def lines_of(text):
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def later(shift, first, events):
    """Yield events with this added to their times and to their correlations."""
    for event in events:
        if first and "correlation" in event.get("args", {}):
            event["args"]["correlation"] += first
        yield event | {"ts": event["ts"] + shift} if shift and "ts" in event else event


def words_of(line):
    """Split a line at spaces outside double quotes; keep the quotes."""
    return re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+', line)


def plain(word):
    return str(json.loads(word)) if word.startswith('"') else word


def number(word):
    return float(word) if "." in word else int(word)


def argument(word):
    """Return name and value of `NAME=VALUE`; a value that is not JSON is text."""
    name, _, value = word.partition("=")
    name = ARGUMENTS.get(name, plain(name))
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def events_of(line):
    """Return the events of a line."""
    if line.startswith("json "):
        return [json.loads(line[5:])]
    kind, *rest = words_of(line)
    if kind == "process":
        return process(int(rest[0]), *map(plain, rest[1:]))
    if kind == "thread":
        return [thread(int(rest[0]), int(rest[1]), plain(rest[2]))]
    if kind == "memory":
        args = {"Bytes": int(rest[1]), "Device Type": 1, "Device Id": 0}
        args |= dict(map(argument, rest[2:]))
        return [memory(number(rest[0]), **args)]
    numbers = [int(word[1:]) for word in rest if re.fullmatch(r"#\d+", word)]
    link = {"correlation": numbers[0]} if numbers else {}
    given = dict(argument(word) for word in rest if re.match(r'("[^"]*"|\w+)=', word))
    (times,) = (word for word in rest if re.fullmatch(r"-?[\d.]+\.\.-?[\d.]+", word))
    start, end = map(number, times.split("..", 1))
    name = "cudaLaunchKernel" if rest[0] == times else plain(rest[0])
    if kind == "launch":
        began, kernel_name = number(rest[1]), plain(rest[2])
        tid = given.pop("tid", 1)
        around = [] if name == "none" else [span("cpu_op", name, began, began + 5, tid)]
        return [
            *around,
            call(began + 1, began + 2, link["correlation"], tid=tid),
            kernel(kernel_name, start, end, link["correlation"], **given),
        ]
    if kind == "backward":
        around = events_of(" ".join(["node", *rest, "fwd=1"]))
        return [*around, span("cpu_op", name, start + 1, end - 1, **around[0]["args"])]
    if kind in DEVICE:
        return [kernel(name, start, end, **link, **given) | {"cat": DEVICE[kind]}]
    category, prefix = NAMED.get(kind, (HOST.get(kind, plain(kind)), ""))
    place = {key: given.pop(key) for key in ("pid", "tid") if key in given}
    event = span(category, prefix + name, start, end, **place, **link, **given)
    return [{key: value for key, value in event.items() if value != "none"}]


def cell(word):
    """Return a value of a row."""
    if word in LITERALS:
        return LITERALS[word]
    if word.startswith(("[", "{")):
        return json.loads(word)
    return number(word.replace("_", "")) if re.fullmatch(r"-?[\d_.]+", word) else plain(word)


def rounded(value):
    """Return a value with the six places that a case may write."""
    return round(value, 6) if isinstance(value, float) else value


def chosen(rows, columns, where):
    """Return columns of the rows with these values, or with one of a list.

    The column `NAME#` has the numbers in a text.
    """
    return [
        [
            re.findall(r"\d[\d,.]*\d|\d", row[column[:-1]]) if column[-1] == "#" else row[column]
            for column in columns.split(", ")
        ]
        for row in rows
        if all(
            row[column] in value if isinstance(value, list) else row[column] == value
            for column, value in where.items()
        )
    ]


def answer(case, rank, question, ask, sql):
    """Return the rows of a case: of the trace of this rank, or of all that it is."""
    if question.is_sql:
        text = question.text
        if rank is not None and "$case" in text:
            ((trace_id,),) = sql(f"SELECT trace_id FROM trace WHERE rank = {rank}")
            text = text.replace("$case", str(trace_id))
        return [[*row] for row in sql(text)]
    asked, _, columns = question.text.partition(": ")
    name, *words = words_of(asked)
    if name.startswith("predict"):
        return chosen(ask(name, *asked.removeprefix(f"{name} ").split("; ")), columns, {})
    if name in OF_TRACE:
        return chosen(ask(name), columns, dict(map(argument, words)))
    given = dict(map(argument, words))
    params = {one.name for one in load_catalog().analysis(name).params}
    where = {key: value for key, value in given.items() if key not in params}
    if rank is not None and question.is_rule:
        sql(f"SET VARIABLE trace_id = (SELECT trace_id FROM memory.trace WHERE rank = {rank})")
        rows = [
            dict(zip(load_catalog().analysis(name).column_names, row, strict=True))
            for row in sql(f"FROM {name}()")
        ]
        sql("RESET VARIABLE trace_id")
        return chosen(rows, columns, where)
    rows = ask(name, **{key: value for key, value in given.items() if key in params})
    return chosen([row for row in rows if rank in (None, row.get("rank"))], columns, where)


def select_traces(run, sql):
    """Let SQL see only the rows of one trace while variable `trace_id` is set."""
    rules = {one.name for case in run for one in case.questions if one.is_rule}
    for name in rules:
        sql(f"FROM {name}() LIMIT 0")  # creates the tables that it reads
    tables = sql(
        "SELECT table_name, database_name FROM duckdb_columns() "
        "WHERE column_name = 'trace_id' AND database_name IN ('memory', 'session')"
    )
    for name, database in tables if rules else ():
        sql(
            f"CREATE TEMP VIEW {name} AS FROM {database}.{name} "
            "WHERE coalesce(trace_id = getvariable('trace_id'), TRUE)"
        )


def wrong_answers(case, rank, ask, sql):
    assert case.questions, case.name
    for question in case.questions:
        try:
            found = answer(case, rank, question, ask, sql)
        except TracekitError as error:
            found = [["error", type(error).__name__]]
        found = [[*map(rounded, row)] for row in found]
        if found != question.rows:
            rows = "\n".join(" ".join(map(json.dumps, row)) for row in found)
            yield f"{case.name}\n--- {question.text}\n{rows}"


def write(case, folder, rank=0, world_size=None):
    """Write the files of a case into a folder; return the paths to open."""
    measured = (
        {} if case.peak_rates is None else {PEAK_RATES: {"stage": "bench", "engine": "torch"}}
    )
    for run, members in {**case.runs, **measured}.items():
        known = {"run_id": run, "tracekit_version": "0", "created_at": "2026-01-31T12:00:00Z"}
        (folder / run).mkdir(parents=True)
        manifest = {**known, "stage": "pretrain", "engine": "deepspeed", **members}
        (folder / run / "run.json").write_text(json.dumps(manifest), "utf-8")
    for path, lines in case.lines.items():
        (folder / path).write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    for path, events in case.files.items():
        number = int(re.findall(r"rank(\d+)", path)[0]) if path else rank
        info = {"rank": number, "world_size": world_size or len(case.files), "backend": "nccl"}
        members = case.top_level | case.members.get(path, {})
        document = members | {"distributedInfo": info | members.get("distributedInfo", {})}
        document["traceEvents"] = events
        file = folder / (path or f"rank{rank}.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document), "utf-8")
    opened = folder / next(iter(case.runs)) if len(case.runs) == 1 else folder
    if case.samples:
        (opened / "power.csv").write_text("\n".join(case.samples), "utf-8")
    return opened if case.peak_rates is None or case.runs else folder / "rank*.json"


def asked_once(trace):
    """Return a function that asks an analysis of a trace, each once, and one for SQL."""

    @cache
    def ask(name, words, params):
        if name in OF_TRACE:
            return OF_TRACE[name](trace, *words)
        return trace.query(name, **json.loads(params)).to_dicts()

    return (
        lambda name, *words, **params: ask(name, words, json.dumps(params)),
        lambda text: trace.sql(text).rows,
    )


def predicted(found):
    """Return a prediction as a row in integer µs, without rounding errors of ns."""
    row = asdict(found)
    return [
        row | {f"{k[:-3]}_us": round(v / 1000) for k, v in row.items() if k[-3:] == "_ns" and v}
    ]


def asked_of_rows(case):
    """Return a function that asks an analysis of the rows that a case gives."""
    results = [rows_of(name, *rows) for name, rows in case.given.items()]
    return lambda name, **params: analysis_of(name, *results, **params).to_dicts(), sql_of_nothing


def sql_of_nothing(text):
    raise AssertionError(f"rows are given, and no tables for {text}")


def rows_of_alone(trace, text):
    """Return the rows of SQL; create only the tables that it reads, because all take 0.3 s."""
    connection = trace._connection
    trace._store.make(names_in(text))
    return connection.execute(text).fetchall()


def wrong_alone(number, case, folder):
    """Yield the wrong answers of a case that provides rows or is a separate run."""
    if case.given:
        yield from wrong_answers(case, None, *asked_of_rows(case))
        return
    path = write(case, folder / str(number))
    peak_rates = case.peak_rates and folder / str(number) / case.peak_rates
    with tracekit.open(path, traces=bool(case.files), cache=False, peak_rates=peak_rates) as trace:
        ask, _ = asked_once(trace)
        yield from wrong_answers(case, None, ask, partial(rows_of_alone, trace))


@cache
def cases_of(path):
    return [*cases_in(path.read_text("utf-8"))]


def ranks_of(path):
    """Return the cases of a file that are opened together with others, as ranks of one run."""
    return [case for case in cases_of(path) if not case.given and not case.is_alone]


@cache
def runs():
    """Return the cases of each run; all cases of a file are in the same run."""
    found = [[]]
    for path in FILES:
        if len(found[-1]) + len(ranks_of(path)) > MAX_RANKS:
            found.append([])
        found[-1] += ranks_of(path)
    return found


@pytest.fixture(scope="module")
def opened_run(tmp_path_factory):
    """Return a function that opens a run of cases and closes the previous one.

    Deriving the tables of one case takes as long as those of a few tens.
    """
    held = {}
    with ExitStack() as stack:

        def opened(run):
            if id(run) not in held:
                held.clear()
                stack.close()
                folder = tmp_path_factory.mktemp("run")
                for rank, case in enumerate(run):
                    write(case, folder, rank, len(run))
                held[id(run)] = asked_once(stack.enter_context(tracekit.open(folder, cache=False)))
                select_traces(run, held[id(run)][1])
            return held[id(run)]

        yield opened


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cases(path, tmp_path, opened_run):
    wrong = []
    for run in runs():
        for rank, case in enumerate(run):
            if any(case is one for one in ranks_of(path)):
                wrong += wrong_answers(case, rank, *opened_run(run))
    for number, case in enumerate(cases_of(path)):
        if case.given or case.is_alone:
            wrong += wrong_alone(number, case, tmp_path)
    assert not wrong, "these rows came:\n\n" + "\n\n".join(wrong)
