"""The command line: help, exit codes, and the error boundary."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

import tracekit
from tracekit.cli._main import SUBCOMMANDS, group, main
from tracekit.errors import QueryError, StoreError, TraceError, UsageError, WorkloadError

HEAVY = ("duckdb", "_duckdb", "polars", "rich", "torch", "numpy", "mcp", "anyio")


def python(code, *args, **settings):
    """Run code in a separate Python, like the command."""
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60}
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    return subprocess.run(command, check=False, **{**usual, **settings})


def test_every_command_exists_with_click_before_8_4():
    """In click before 8.4, `ParamType` has no type parameter."""
    done = python(
        """
        import click
        from importlib import import_module
        from pkgutil import iter_modules

        def refuse(cls, _):
            raise TypeError(f"{cls.__name__} is not generic")

        click.ParamType.__class_getitem__ = classmethod(refuse)
        import tracekit.cli.commands
        for module in iter_modules(tracekit.cli.commands.__path__):
            import_module(f"tracekit.cli.commands.{module.name}")
        """
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["ingest", "--help"]])
def test_help_loads_no_heavy_library(arguments):
    done = python(
        f"""
        import sys
        from tracekit.cli._main import main
        exit_code = main({arguments!r})
        print([name for name in {HEAVY!r} if name in sys.modules], exit_code, file=sys.stderr)
        """
    )
    assert done.stderr.strip() == "[] 0"
    assert done.stdout


@pytest.mark.nightly("starts three processes")
def test_only_commands_that_read_traces_tune_the_interpreter(sample_trace, tmp_path):
    """A workload that `collect` measures in this process must find it as Python sets it up."""
    code = """
        import gc, sys
        from tracekit.cli._main import main
        before = sys.getswitchinterval(), gc.get_threshold()
        main(sys.argv[1:])
        print((sys.getswitchinterval(), gc.get_threshold()) == before, file=sys.stderr)
    """
    ingest = ("ingest", str(sample_trace), "-o", str(tmp_path / "s.duckdb"))
    assert python(code, "collect", "--help").stderr == "True\n"
    assert python(code, "breakdown", str(sample_trace), "--no-cache").stderr == "False\n"
    assert python(code, *ingest).stderr.splitlines()[-1] == "False"


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "tracekit", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"tracekit {tracekit.__version__}\n"


def test_without_a_command_the_help_goes_to_stderr(cli):
    outcome = cli()
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("Usage: tracekit")


@pytest.mark.parametrize(
    ("words", "exit_code", "named"),
    [
        ("breakdown", 2, "see tracekit breakdown --help"),
        ("breakdown x --ful", 2, "Did you mean one of: '--full'"),
        ("breakdown x --format xml", 2, "see tracekit breakdown --help"),
        ("ingest x", 2, "see tracekit ingest --help"),
        ("ingest cache empty", 2, "see tracekit ingest cache --help"),
        ("query", 2, "query --list"),
        ("query kernels", 2, "TRACE..."),
        ("query kernls x", 5, "kernels"),
        ("query get_temporal_breakdown x", 5, "timeline"),
        ("query kernels x --limit many", 2, "--limit"),
        ("query kernels x --lmit 1", 2, "--lmit"),
        ("query slack x --by name", 2, "--by"),
        ("sql x 1 --limit 0", 2, "--limit"),
        ("sql x 1 --limit x", 2, "--limit"),
        ("sql x 1 --timeout 0", 2, "--timeout"),
        ("view x --ui somewhere --no-browser", 2, "--ui"),
        ("https://bucket/x?sig=s3cr3t&n=1", 2, "https://bucket/x?sig=(redacted)&n=1"),
        ("compare paper", 2, "compare paper --list"),
        ("compare paper table17", 2, "table17"),
        ("compare paper table3 --platform H100", 2, "its platforms: A800"),
        ("compare paper table5 --platform RTX4090", 2, "A800"),
        ("compare paper table3 nowhere", 3, "nowhere"),
        ("compare paper table3 .", 3, "."),
        ("collect --requests 3", 2, "--requests"),
        ("collect --steps 0", 2, "--steps"),
        ("collect --steps two", 2, "--steps"),
        ("collect --seq-len 1", 2, "--seq-len"),
        ("collect --learning-rate 0", 2, "--learning-rate"),
        ("collect --gc-density 2", 2, "--gc-density"),
        ("collect --memory-limit much", 2, "--memory-limit"),
        ("collect --precision int3", 2, "--precision"),
        ("collect --model gpt-9", 2, "--model"),
        ("collect --layers 5 --model tiny", 2, "--layers"),
        ("collect --tp 3 --engine megatron", 2, "--tp"),
        ("collect --engine fsdp2 --opt Z3 --precision fp16", 2, "--engine"),
        ("collect --opt GC:topk --precision fp16", 2, "--opt"),
        ("collect --opt Z1+Z2", 2, "--opt"),
        ("collect --opt R --engine horovod", 2, "--engine"),
        ("collect --opt Z3 --engine ddp", 2, "--opt Z3"),
        ("collect --opt GC:topk --engine deepspeed", 2, "--opt GC:topk"),
        ("collect --stage finetune --opt LFA --engine deepspeed", 2, "--opt LFA"),
        ("collect --opt R --engine fsdp2", 2, "--opt R"),
        ("collect --opt Z1 --engine fsdp2", 2, "--opt Z1"),
        ("collect --engine ddp --tp 2 --nproc 2", 2, "--tp"),
        ("collect --opt Z2 --engine megatron --tp 2 --nproc 2", 2, "--opt Z2"),
        ("collect --stage finetune --engine megatron --tp 2 --nproc 2", 2, "--engine"),
        ("collect --ranks last -- touch ran", 2, "--ranks"),
        ("collect --every 4 -- touch ran", 2, "--windows"),
        ("collect --windows 2 -- touch ran", 2, "--every"),
        ("collect --windows 0 --every 1 -- touch ran", 2, "--windows"),
        ("collect --on-signal TERM -- touch ran", 2, "--on-signal"),
        ("collect sweep --opt Naive", 2, "--out"),
        ("collect sweep --out runs --opt Naive,,R", 2, "--opt"),
        ("collect sweep --out runs --opt Naive,Z9", 2, "--opt"),
        ("collect sweep --out runs --opt R,r", 2, "pretrain_tiny_R_bs1_n1"),
        ("collect sweep --out runs --batch-size 1,two", 2, "--batch-size"),
        ("collect sweep --out runs --batch-size 0", 2, "--batch-size"),
        ("collect sweep --out runs --stage serve", 2, "--stage"),
        ("collect sweep --out runs --max-batch-size 0", 2, "--max-batch-size"),
        ("collect sweep --out runs --memory-limit much", 2, "--memory-limit"),
        ("collect sweep --out runs --windows 2", 2, "--windows"),
        ("collect sweep --out runs -- touch ran", 2, "sweep runs no program"),
        ("collect --stage serve --engine llama", 2, "--engine"),
        ("collect --stage serve --engine vllm --url localhost:8000", 2, "--url"),
        ("collect --stage serve --arrival poisson", 2, "--arrival"),
        ("collect --stage serve --arrival poisson:-1", 2, "--arrival"),
        ("collect --stage serve --profile-after soon", 2, "--profile-after"),
        ("collect --stage serve --launch true", 2, "--launch"),
        ("collect --stage serve --engine vllm --request-body [1]", 2, "--request-body"),
        ("collect --stage serve --batch-size 4", 2, "--batch-size"),
        ("bench gemm --sizes 1KiB", 2, "--sizes"),
        ("bench gemm --sizes 0x1x1", 2, "--sizes"),
        ("bench memcpy --sizes 1x1x1", 2, "--sizes"),
        ("bench memcpy --sizes 0", 2, "--sizes"),
        ("bench memcpy --sizes many", 2, "--sizes"),
        ("bench memcpy --sizes ,", 2, "--sizes"),
        ("bench gemm --dtype int8", 2, "--dtype"),
        ("bench memcpy --dtype fp32", 2, "--dtype"),
        ("bench collectives --dtype fp8", 2, "--dtype"),
        ("bench gemm --ops h2d", 2, "--ops"),
        ("bench gemm --nproc 2", 2, "--nproc"),
        ("bench collectives --nproc 0", 2, "--nproc"),
        ("bench all --width 0", 2, "--width"),
        ("bench all --seconds-per-point -1", 2, "--seconds-per-point"),
        ("bench all --device tpu", 2, "--device"),
        ("bench all --device cpu --backend nccl", 2, "--backend nccl"),
        ("rank0.json", 2, "tracekit breakdown rank0.json"),
        ("query rank0.json kernels", 2, "pass the name first: query NAME TRACE"),
    ],
)
def test_wrong_usage_is_named(cli, tmp_path, words, exit_code, named):
    (tmp_path / "rank0.json").touch()
    outcome = cli(*words.split(), is_here=True)
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    error, *hint = outcome.stderr.splitlines()
    assert error.startswith("error: ")
    assert named in outcome.stderr
    assert len(hint) <= 1
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "rank0.json"}


@pytest.fixture
def failing(monkeypatch):
    """Return a function that lets the opening of traces fail with an error."""

    def fail_with(error):
        def fail(_):
            raise error

        monkeypatch.setattr("tracekit.opening.open_request", fail)

    return fail_with


def test_the_hint_for_an_analysis_without_query_is_the_command(cli):
    error = cli("kernels", "x.json").stderr
    assert error.endswith("hint: it is an analysis: tracekit query kernels TRACE\n")


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [(UsageError, 2), (TraceError, 3), (StoreError, 4), (QueryError, 5), (WorkloadError, 6)],
)
def test_an_error_is_one_sentence_a_hint_and_its_exit_code(cli, failing, kind, exit_code):
    failing(kind("x.json: cannot be read", hint="try y.json"))
    outcome = cli("breakdown", "x.json")
    assert outcome.exit_code == exit_code
    assert outcome.stdout == ""
    assert outcome.stderr == "error: x.json: cannot be read\nhint: try y.json\n"


def test_text_quoted_in_errors_is_escaped(cli, failing):
    failing(TraceError("\x1b[2Jx.json: \u202ebad", hint=None))
    assert cli("breakdown", "x").stderr == "error: \\x1b[2Jx.json: \\u202ebad\n"


def test_an_interrupt_is_130(cli, failing):
    failing(KeyboardInterrupt())
    assert cli("breakdown", "x").exit_code == 130


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), OSError(5, "a bug")])
def test_a_bug_is_70_and_keeps_its_traceback(cli, failing, error):
    failing(error)
    outcome = cli("breakdown", "x")
    assert outcome.exit_code == 70
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("Traceback")
    assert "\nerror: this is a bug in tracekit" in outcome.stderr


# A separate Python that opens a result with the given number of rows.
STAND_IN = """
    import sys, tracekit.opening
    from tracekit.analysis.result import Column, RowStream
    from tracekit.cli._main import main

    class Trace:
        missing = ()
        def __enter__(self): return self
        def __exit__(self, *e): pass
        def stream_sql(self, text, timeout_s):
            if text == "interrupt":
                import os, signal
                os.kill(os.getpid(), signal.SIGINT)
                import time; time.sleep(30)
            rows = (("grün 🚀 \\x1b[31m",) for _ in range(int(text)))
            return RowStream("sql", (Column("name", "VARCHAR"),), rows)

    tracekit.opening.open_request = lambda request: Trace()
    sys.exit(main(sys.argv[1:]))
"""


def test_the_process_exits_with_the_code():
    done = python(STAND_IN, "sql", "x", "- ", "--format", "nope")
    assert done.returncode == 2
    done = python(STAND_IN, "sql", "x", "-", input="1")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupted_process_is_quiet():
    done = python(STAND_IN, "sql", "x", "-", input="interrupt")
    assert done.returncode == 130
    assert done.stderr.strip() == ""


def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-c", textwrap.dedent(STAND_IN), "sql", "x", "-", "--format", "csv"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write("200000")
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        stderr = process.stderr.read()
        assert process.wait(30) == 0
    assert stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("arguments", [["sql", "x", "-"], ["--help"]])
def test_an_unwritable_output_is_reported(arguments):
    with Path("/dev/full").open("w") as full:
        done = python(STAND_IN, *arguments, input="3", stdout=full)
    assert done.returncode == StoreError.exit_code
    assert done.stderr == "error: stdout: No space left on device\n"


def test_a_full_temporary_folder_is_not_called_stdout(tmp_path):
    """The written file has no name."""
    script = """
        import errno, os, sys, tempfile
        from tracekit.cli import _main
        name = sys.argv[1] or None
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        _main._run = full
        sys.exit(_main.main([]))
    """
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    hint = f"hint: temporary files are written to {tmp_path}; set TMPDIR to another folder\n"
    for name, message in (("", "a file"), (str(tmp_path / "x"), str(tmp_path / "x"))):
        done = python(script, name, env=env)
        assert done.returncode == StoreError.exit_code
        assert done.stderr == f"error: {message}: No space left on device\n{hint}"


@pytest.mark.parametrize("arguments", [["breakdown", "--no-cache"], ["view", "--ui", "http://x"]])
def test_no_temporary_folder_at_all_is_one_sentence(tmp_path, arguments):
    """As where all that there are are full: a file is tried in each."""
    script = """
        import sys, tempfile
        from tracekit.cli._main import main
        tempfile._candidate_tempdir_list = lambda: ["/nowhere"]
        sys.exit(main(sys.argv[1:]))
    """
    trace = tmp_path / "t.json"
    trace.write_text('{"traceEvents": []}')
    env = {**os.environ, "TRACEKIT_CACHE_DIR": str(tmp_path / "cache")}
    done = python(script, *arguments, str(trace), env=env)
    assert done.returncode == StoreError.exit_code
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: no temporary folder is writable: ")
    assert "TMPDIR" in hint


@pytest.mark.parametrize(
    ("encoding", "format_name"),
    [("ascii", "table"), ("ascii", "json"), ("latin-1", "csv"), ("latin-1", "markdown")],
)
def test_any_encoding_of_stdout_will_do(encoding, format_name):
    words = ("sql", "x", "-", "--format", format_name)
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = python(STAND_IN, *words, input=b"2", text=False, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "\x1b" not in done.stdout.decode(encoding)


def test_commands_work_without_stdout():
    code = "import sys; sys.stdout = None\n" + textwrap.dedent(STAND_IN)
    done = python(code, "sql", "x", "-", input="1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tracekit bre", "breakdown"),
        ("tracekit collect s", "sweep"),
        ("tracekit check h", "history"),
        ("tracekit check --aga", "--against"),
        ("tracekit check baseline sa", "save"),
        ("tracekit history --as", "--as-given"),
        ("tracekit query phases --per to", "total"),
    ],
)
def test_shell_completion(line, offered):
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    env = {**os.environ, **asked, "_TRACEKIT_COMPLETE": "bash_complete"}
    done = python("from tracekit.cli._main import main; main()", env=env)
    assert done.stdout.split() == [f"plain,{word}" for word in offered.split()]
    assert done.stderr == ""


def test_commands_are_few_and_described_shortly():
    names = group.list_commands(click.Context(group))
    assert len(names) <= 20
    for name in (*names, *SUBCOMMANDS):
        _, command, _ = group.resolve_command(click.Context(group), [name])
        assert len(command.get_short_help_str(200)) <= 61, name


def test_a_folder_that_another_distribution_shares_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tracekit, "__file__", str(tmp_path / "tracekit" / "__init__.py"))
    (tmp_path / "tracekit_llm-0.1.0.dist-info").mkdir()
    assert main(["--version"]) == 0
    (tmp_path / "tracekit-0.3.1.dist-info").mkdir()
    assert main(["--version"]) == UsageError.exit_code
    assert "tracekit-0.3.1" in capsys.readouterr().err


def test_no_page_and_no_hint_installs_the_library_of_others():
    repo = Path(__file__).resolve().parents[2]
    pages = [repo / "README.md", repo / "CONTRIBUTING.md", *repo.glob("docs/**/*.md")]
    sources = [
        file for folder in ("tracekit", "collectors") for file in (repo / folder).rglob("*.py")
    ]
    wrong = re.compile(r"""pip install ["']?tracekit(?!-llm)(\[|["'`\s]|$)""")
    found = [file for file in (*pages, *sources) if wrong.search(file.read_text("utf-8"))]
    assert found == []
