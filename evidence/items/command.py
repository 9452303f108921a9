"""`tracekit collect` and what a person asks next, as commands."""

from __future__ import annotations

from evidence._commands import tracekit
from evidence._records import Record, SkippedError
from evidence._setting import Setting
from evidence._trace_checks import check_training

_QUERIES = ("gemms", "mfu", "roles", "compute_memory", "launch_delays", "queue_length", "overlap")


def run(setting: Setting, record: Record) -> None:
    """Collect one run, and ask it everything."""
    folder = setting.runs_folder / "command"
    steps = (*("--warmup", 1, "--steps", 2, "--repeats", 2, "--profile-steps", 2),)
    with record.case("collect") as case:
        done = tracekit(
            setting,
            *("collect", "--stage", "pretrain", "--opt", "R", "--model", "tiny"),
            *("--seq-len", 64, *steps, "--with-stack", "--out", folder),
        )
        case.claim("it ends well", done.exit_code == 0, done.exit_code, "0")
        if done.exit_code == 0:
            check_training(case, folder, "R", has_cuda=setting.host.has_cuda)
        else:
            case.figure(said=done.last_words)
    with record.case("breakdown") as case:
        if not folder.is_dir():
            raise SkippedError("there is no run")
        done = tracekit(setting, "breakdown", folder)
        case.claim("it ends well", done.exit_code == 0, done.exit_code, "0")
        case.text("tracekit breakdown", f"```\n{done.stdout.strip()}\n```")
    for name in _QUERIES:
        with record.case(f"query {name}") as case:
            if not folder.is_dir():
                raise SkippedError("there is no run")
            done = tracekit(setting, "query", name, folder, "--format", "json")
            # A metric that a trace cannot support is refused with the reason: that is no failure.
            case.claim("it ends well or refuses", done.exit_code in (0, 5), done.last_words)
            case.figure(row_count=len(done.json()) if done.exit_code == 0 else 0)
            if done.exit_code == 5:
                raise SkippedError(done.last_words)
