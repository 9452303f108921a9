"""The embedded engine: transformers' continuous batching on a CPU, with a tiny model."""

import json
import re
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from trace_files import read_trace

import tracekit
from tracekit import manifest
from tracekit.collectors.serving.engines import transformers as engine_module
from tracekit.collectors.serving.plan import LoadPlan, Mark, ProfilePlan
from tracekit.collectors.serving.run import token_id_prompts
from tracekit.errors import UsageError
from tracekit.units import NS_PER_S

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tracekit.collectors.serving.embedded.step_profile import StepProfile  # noqa: E402

nightly = pytest.mark.nightly("one load on the embedded engine runs in the gate")

REQUEST_COUNT = 12
PROMPT_LEN = 40
NEW_TOKEN_COUNT = 10


def plan_of(count=12, *, prompt_len=PROMPT_LEN, **members):
    prompts = token_id_prompts(count + 1, prompt_len, 2048, seed=0)
    settings = {
        "prompts": prompts[:count],
        "arrival_ns": [0] * count,
        "max_new_token_count": NEW_TOKEN_COUNT,
        "warmup_prompts": prompts[count:],
    }
    return LoadPlan(**(settings | members))


def ignore(_):
    """Ignore the progress."""


def records_of(result, *, is_profiled=False):
    return [
        record
        for record in result.records
        if record.is_profiled is is_profiled and not record.is_warmup
    ]


@pytest.fixture(scope="module")
def run(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    return SimpleNamespace(folder=folder, result=engine.run(plan_of(), folder, ignore))


@pytest.fixture(scope="module")
def trace(run, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        with tracekit.open(run.folder / "rank0.json.gz") as opened:
            yield opened


def test_every_request_is_recorded(run):
    records = run.result.records
    measured = records_of(run.result)
    assert len({record.request_id for record in records}) == len(records)
    assert [record.request_id for record in measured] == list(range(REQUEST_COUNT))
    assert [record.is_warmup for record in records].count(True) == 1
    assert [record.is_profiled for record in records].count(True) == REQUEST_COUNT
    for record in records:
        assert record.outcome == "ok", record.reason
        assert record.prompt_token_count == PROMPT_LEN
        assert record.output_token_count == len(record.token_ns) == NEW_TOKEN_COUNT
        assert (record.first_token_ns, record.end_ns) == (record.token_ns[0], record.token_ns[-1])
        assert record.token_ns == sorted(set(record.token_ns))
        assert record.arrival_ns <= record.sent_ns < record.token_ns[0]
        assert (record.end_ns < 0) == record.is_warmup
    assert 0 <= measured[0].arrival_ns < NS_PER_S
    assert max(record.end_ns for record in measured) <= run.result.wall_ns


def test_steps_and_tokens_add_up(run):
    result = run.result
    measured, counts = records_of(result), result.extra["steps"]
    # The last part of a prompt produces the first token, so each other token is one decode token.
    assert counts["prefill_token_count"] == REQUEST_COUNT * PROMPT_LEN
    assert counts["decode_token_count"] == REQUEST_COUNT * (NEW_TOKEN_COUNT - 1)
    phases = ("prefill", "decode", "mixed")
    assert counts["step_count"] == sum(counts[f"{phase}_step_count"] for phase in phases)
    served = [[n for a, b in record.steps for n in range(a, b + 1)] for record in measured]
    numbers = sorted({number for steps in served for number in steps})
    assert numbers == list(range(numbers[0], numbers[0] + counts["step_count"]))
    assert min(map(len, served)) >= NEW_TOKEN_COUNT
    # The window covers complete steps.
    assert result.traces == ["rank0.json.gz"]
    assert result.wall_ns < result.window_start_ns < result.window_end_ns
    steps = re.search(r"steps (\d+) to (\d+)$", result.profile_note)
    # The first load may have taken other steps, as requests arrive during a step.
    assert result.profiled_step_count == int(steps[2]) - int(steps[1]) + 1


def test_trace_contains_steps_phases_and_batches(run, trace):
    names = [
        str(row["name"])
        for row in trace.sql(
            "SELECT name FROM event WHERE category = 'user_annotation' ORDER BY ts_ns"
        ).to_dicts()
    ]
    steps = [int(name.removeprefix("tk/step/")) for name in names if name.startswith("tk/step/")]
    assert steps == list(range(steps[0], steps[0] + run.result.profiled_step_count))
    phases = Counter(name for name in names if name.startswith("tk/phase/"))
    assert set(phases) == {"tk/phase/prefill", "tk/phase/mixed", "tk/phase/decode"}
    assert phases.total() == len(steps)
    pattern = re.compile(r"tk/batch/prefill_(\d+)\((\d+)\)_decode_(\d+)\((\d+)\)")
    batches = [match for match in map(pattern.fullmatch, names) if match]
    assert len(batches) == len(steps)
    assert all(match[3] == match[4] for match in batches), "one token per request in decode"
    assert sum(int(match[2]) for match in batches) == REQUEST_COUNT * PROMPT_LEN
    assert sum(int(match[4]) for match in batches) == REQUEST_COUNT * (NEW_TOKEN_COUNT - 1)
    profiled = records_of(run.result, is_profiled=True)
    served = [pair for record in profiled for pair in record.steps or []]
    assert min(first for first, _ in served) == steps[0]
    assert max(last for _, last in served) == steps[-1]


def test_phases_and_modules_of_the_trace(run, trace):
    content = read_trace(run.folder / "rank0.json.gz")
    assert (content["tracekit_stage"], content["tracekit_engine"]) == ("serve", "transformers")
    phases = {str(row["phase"]): row for row in trace.query("phases").to_dicts()}
    assert {"prefill", "mixed", "decode"} <= set(phases)
    # Ops are counted: their times are luck in a model so small.
    op_count = sum(int(row["kernel_count"]) for row in phases.values())
    in_steps = sum(int(phases[name]["kernel_count"]) for name in ("prefill", "mixed", "decode"))
    assert in_steps >= 0.99 * op_count
    rows = trace.query("modules").to_dicts()
    counts = Counter()
    for row in rows:
        counts[str(row["source"])] += int(row["kernel_count"])
    # The rest is the engine's work in a step (scheduling, index tensors, sampling).
    assert counts["tk"] >= 0.75 * counts.total()
    assert counts["tk"] + counts["range"] >= 0.97 * counts.total()
    for phase in ("prefill", "mixed", "decode"):
        paths = {str(row["module_path"]) for row in rows if row["phase"] == phase}
        modules = {"model.layers.0.self_attn.q_proj", "model.layers.3.mlp.down_proj", "lm_head"}
        assert modules <= paths


@nightly
def test_collect_and_then_breakdown(cli, tmp_path):
    folder = tmp_path / "run"

    def tracekit_command(*arguments):
        done = cli(*arguments, env={"OMP_NUM_THREADS": "1"})
        assert done.exit_code == 0, done.stderr
        return done.stdout

    load = ("--requests", "8", "--prompt-len", "24", "--max-new-tokens", "6")
    printed = tracekit_command("collect", "--stage", "serve", *load, "--out", str(folder))
    assert printed == f"{folder}\n"
    made = manifest.read(folder)
    assert (made.engine, made.outcome, made.precision) == ("transformers", "ok", "bf16")
    assert (made.load.ok_count, made.load.failed_count, made.load.warmup_count) == (8, 0, 2)
    # From the first request sent to the last answered, which is within the load's wall time.
    assert made.tokens_per_s_mean >= 8 * 6 / (made.load.wall_ns / NS_PER_S)

    steps = json.loads(tracekit_command("query", "serving_steps", str(folder), "--format", "json"))
    assert sum(row["prefill_token_count"] for row in steps) == 8 * 24
    assert sum(row["decode_token_count"] for row in steps) == 8 * 5
    assert "Latency" in tracekit_command("breakdown", str(folder))


@nightly
def test_a_window_in_a_longer_load(engine, tmp_path):
    profile = ProfilePlan(after=Mark(request_count=2), length=Mark(request_count=3))
    plan = plan_of(10, concurrency=2, profile=profile, prompt_len=8, max_new_token_count=4)
    result = engine.run(plan, tmp_path, ignore)
    measured, profiled = records_of(result), records_of(result, is_profiled=True)
    assert [record.outcome for record in measured] == ["ok"] * 10
    assert all(record.outcome == "ok" for record in profiled)
    # The pass ends when its window has, and sends no more than it needs.
    assert 5 <= len(profiled) < 10
    assert 0 < result.profiled_step_count < result.extra["steps"]["step_count"]
    spans = [(record.sent_ns, record.end_ns) for record in measured]
    assert max(sum(a <= at < b for a, b in spans) for at, _ in spans) == 2


@nightly
def test_requests_are_sent_when_they_are_due(engine, tmp_path):
    due_ns = [0, 100_000_000, 200_000_000]
    profile = ProfilePlan(is_wanted=False)
    plan = plan_of(3, arrival_ns=due_ns, prompt_len=8, max_new_token_count=2, profile=profile)
    result = engine.run(plan, tmp_path, ignore)
    assert (result.traces, list(tmp_path.iterdir())) == ([], [])
    arrivals, sent = zip(*((r.arrival_ns, r.sent_ns) for r in records_of(result)), strict=True)
    assert [arrival - arrivals[0] for arrival in arrivals] == due_ns
    assert arrivals[0] >= 0
    # No request is sent before it is due; the delay depends on the machine.
    assert list(sent) == sorted(sent)
    assert all(at >= due for at, due in zip(sent, arrivals, strict=True))


@nightly
@pytest.mark.parametrize(
    ("error", "is_out_of_memory"),
    [
        (RuntimeError("the device fell off the bus"), False),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
    ],
)
def test_an_error_in_the_engine_ends_the_load(
    engine, tmp_path, monkeypatch, error, is_out_of_memory
):
    forward = engine._model.forward
    calls = iter(range(100))

    def broken(*args, **kwargs):
        if next(calls) == 17:
            raise error
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine._model, "forward", broken)
    result = engine.run(plan_of(), tmp_path, ignore)
    assert str(error) in str(result.failure)
    assert result.is_out_of_memory is is_out_of_memory
    assert not result.interrupted
    outcomes = {record.outcome for record in records_of(result)}
    assert outcomes <= {"ok", "bad_response", "cancelled"}
    assert "bad_response" in outcomes
    assert (result.traces, list(tmp_path.iterdir())) == ([], [])


@nightly
def test_an_error_while_profiling_leaves_the_figures(engine, tmp_path, monkeypatch):
    batch_chosen = StepProfile.batch_chosen
    steps = iter(range(100))

    def broken(self, batch):
        if next(steps) == 3:
            raise RuntimeError("the device fell off the bus")
        batch_chosen(self, batch)

    monkeypatch.setattr(StepProfile, "batch_chosen", broken)
    result = engine.run(plan_of(4), tmp_path, ignore)
    records = records_of(result)
    assert [record.outcome for record in records] == ["ok"] * 4
    assert (result.traces, list(tmp_path.iterdir())) == ([], [])
    assert not torch.autograd._profiler_enabled()
    assert not engine._model._forward_hooks
    assert "RuntimeError: the device fell off the bus" in str(result.profile_note)


@nightly
def test_an_interrupt_keeps_the_finished_requests(engine, tmp_path):
    def interrupt(progress):
        if progress.stage == "load" and progress.finished_count >= 2:
            raise KeyboardInterrupt

    result = engine.run(plan_of(20, concurrency=2), tmp_path, interrupt)
    assert result.interrupted
    records = records_of(result)
    outcomes = Counter(record.outcome for record in records)
    assert outcomes["ok"] >= 2
    assert outcomes.total() == outcomes["ok"] + outcomes["cancelled"] == 20
    assert all(0 <= record.arrival_ns <= result.wall_ns for record in records)


@nightly
def test_a_hanging_engine_is_given_up(engine, tmp_path, monkeypatch):
    let_go = threading.Event()
    forward = engine._model.forward

    def hanging(*args, **kwargs):
        let_go.wait(20)
        return forward(*args, **kwargs)

    monkeypatch.setattr(engine._model, "forward", hanging)
    monkeypatch.setattr(
        "tracekit.collectors.serving.embedded.continuous_batching._STOP_TIMEOUT_S", 0.2
    )
    result = engine.run(plan_of(2, timeout_ns=NS_PER_S // 2), tmp_path, ignore)
    let_go.set()
    assert "0.5 s" in str(result.failure)
    assert all(record.outcome == "cancelled" for record in result.records)


@nightly
def test_a_cache_too_small_for_a_request_is_rejected(tmp_path):
    made = engine_module.create({"model": "tiny", "cache_blocks": 2, "page_size": 8})
    made.start(tmp_path, ignore)
    with pytest.raises(UsageError, match="2 pages with 8 tokens"):
        made.run(plan_of(), tmp_path, ignore)
    made.close()


@nightly
def test_a_cache_larger_than_memory_is_out_of_memory(tmp_path):
    """Larger than the address space, as some allocators promise anything smaller."""
    made = engine_module.create({"model": "tiny", "cache_blocks": 10**14})
    made.start(tmp_path, ignore)
    result = made.run(plan_of(3), tmp_path, ignore)
    made.close()
    assert result.is_out_of_memory
    assert result.failure is not None
    assert {record.outcome for record in result.records} == {"cancelled"}
