"""Parts of a recorded loop: clock, windows, tokens, and references to the model."""

import gc
import os
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from processes import on_a_thread

torch = pytest.importorskip("torch")

from tracekit.collectors.loop import program_loop, times, windows  # noqa: E402
from tracekit.collectors.loop.plan import LoopPlan  # noqa: E402
from tracekit.collectors.loop.recorder import LoopRecorder  # noqa: E402
from tracekit.collectors.loop.report import LoopReport, overhead_of  # noqa: E402
from tracekit.collectors.loop.times import StepClock, median_ns, warm_ns  # noqa: E402
from tracekit.collectors.loop.tokens import TokenCounter  # noqa: E402
from tracekit.collectors.loop.watch import LoopWatch, Observer  # noqa: E402
from tracekit.collectors.machine import accelerator  # noqa: E402
from tracekit.collectors.process.distributed import Place  # noqa: E402
from tracekit.collectors.profiler.loop_profilers import LoopProfilers  # noqa: E402

US = 1_000


@dataclass
class Event:
    at_ns: int

    def elapsed_time(self, other):
        return (other.at_ns - self.at_ns) / 1e6


@dataclass
class Machine:
    now_ns: int = 0
    events: list[Event] = field(default_factory=list)

    def event(self, device):
        if device.type == "cpu":
            return None
        self.events.append(Event(self.now_ns))
        return self.events[-1]


@pytest.fixture(params=["cpu", "cuda"])
def clock(request, machine):
    return StepClock(torch.device(request.param))


@pytest.fixture
def machine(monkeypatch):
    made = Machine()
    monkeypatch.setattr(times.time, "perf_counter_ns", lambda: made.now_ns)
    monkeypatch.setattr(accelerator, "event", made.event)
    monkeypatch.setattr(accelerator, "synchronize", lambda _: None)
    return made


def run(clock, machine, *acts):
    """Let time pass, µs; `+forward` begins a phase, `-forward` ends it, other names are methods."""
    for act in acts:
        if isinstance(act, int):
            machine.now_ns += act * US
        elif act[0] in "+-":
            (clock.begin_phase if act[0] == "+" else clock.end_phase)(act[1:])
        else:
            getattr(clock, act)()


STEP = (1, "+forward", 10, "-forward", 2, "+backward", 20, "-backward", "+optimizer", 5)


def test_phases_of_steps(clock, machine):
    run(clock, machine, *STEP, "-optimizer", 1, "tick", *STEP, 3, "-optimizer", "tick")
    assert clock.stop() == [39 * US, 41 * US]
    first, second = clock.phases()
    assert first == {"forward": 10 * US, "backward": 20 * US, "optimizer": 5 * US}
    assert second == {**first, "optimizer": 8 * US}


def test_a_phase_inside_of_another_is_not_in_it(clock, machine):
    run(clock, machine, "+optimizer", 1, "+forward", 10, "-forward", 2, "-optimizer", 4, "tick")
    assert clock.stop() == [17 * US]
    assert clock.phases() == [{"optimizer": 3 * US, "forward": 10 * US}]


def test_a_clock_that_a_program_sets_back(clock, machine):
    run(clock, machine, "+forward", -5, "-forward", "tick", 3, "tick")
    assert clock.stop() == [0, 3 * US]


def test_time_between_steps_is_in_no_phase(clock, machine):
    acts = ("+forward", 1, "-forward", "pause", "+evaluation", 9, "-evaluation", "resume", 2)
    run(clock, machine, *acts, "+forward", 3, "-forward", "tick")
    assert clock.stop() == [6 * US]
    assert clock.phases() == [{"forward": 4 * US}]


def test_a_phase_that_ends_without_a_beginning(clock, machine):
    run(clock, machine, "-forward", 1, "+forward", 2, "tick", "-forward", 3, "tick")
    assert clock.stop() == [3 * US, 3 * US]
    assert clock.phases() == [{}, {}], "of one that goes on at the step's end nothing is known"


def test_a_step_with_many_phases_has_no_phase_times(clock, machine):
    run(clock, machine, *("+forward", 1, "-forward") * 1_000, "tick", "+forward", 1, "-forward")
    run(clock, machine, "tick")
    assert len(machine.events) < 300, "the device is not asked for all of them"
    assert clock.stop() == [1_000 * US, US]
    assert clock.phases() == [{}, {"forward": US}]


def test_dropped_and_forgotten_steps(clock, machine):
    run(clock, machine, "+forward", 1, "-forward", "tick", "drop", "+forward", 2, "-forward")
    run(clock, machine, "pause", "forget_parts", "resume", "+forward", 3, "-forward", "tick")
    assert clock.stop() == [3 * US]
    assert clock.phases() == [{"forward": 3 * US}]


def timed(machine, *blocks, is_in_turn=False):
    report = LoopReport(rank=0, world_size=1, is_in_turn=is_in_turn)
    found = times.LoopTimes(report, accelerator.CPU)
    for block in blocks:
        found.begin()
        for kind, ns in block:
            machine.now_ns += ns
            found.clock.tick(kind)
        found.keep_measured()
    return report


def test_the_step_time_is_that_of_a_step(machine):
    alike = [("a", ns) for ns in (10, 13, 11, 12)]
    report = timed(machine, alike, alike)
    assert (report.plain_ns, report.notes) == ([ns for _, ns in alike * 2], [])
    assert overhead_of(report).plain_step_ns == 11
    # Compilation or small batches: steps after the profile show the steady loop.
    report = timed(machine, [("a", 20)] * 5, [("a", 10)] * 5)
    assert overhead_of(report).plain_step_ns == 10
    assert (report.step_ns, len(report.notes)) == ([20] * 5 + [10] * 5, 1)


def test_steps_of_other_optimizers_are_not_in_the_step_time(machine):
    report = timed(machine, [("a", 10), ("ab", 90), ("a", 11)], [("a", 12)])
    assert (report.plain_ns, report.notes) == ([10, 11, 12], [])
    in_blocks = [("a11 b1", 90), ("b11 a1", 30)]
    for report in (
        timed(machine, in_blocks, in_blocks),
        timed(machine, [("a", 10)] * 4, is_in_turn=True),
    ):
        report.ranges_step_ns = 50
        overhead = overhead_of(report)
        assert (overhead.plain_step_ns, overhead.ranges_step_ns) == (None, None)
        assert len(report.notes) == 1


@pytest.mark.parametrize("is_trained_on", [True, False])
@pytest.mark.parametrize("has_cache", [False, True])
def test_text_that_several_steps_train_on_is_generated(is_trained_on, has_cache):
    kinds = []
    model = torch.nn.Sequential(torch.nn.Embedding(8, 2), torch.nn.Linear(2, 8))
    optimizer = torch.optim.SGD(model.parameters())
    observer = Observer()
    observer.recorder = Mock()
    observer.recorder.root_begins = lambda _, kind, *__: kinds.append(kind)
    watch = LoopWatch(observer)
    watch.start()
    try:
        for _ in range(4):
            kinds.clear()
            model.eval()
            ids = torch.zeros(2, 4, dtype=torch.int64)
            with torch.no_grad():
                for length in range(4, 10):
                    model(ids[:, -1:] if has_cache and length > 4 else ids)
                    ids = torch.cat([ids, ids[:, :1]], dim=1)
            model.train()
            batch = ids if is_trained_on else torch.zeros(2, 32, dtype=torch.int64)
            for _ in range(3):
                model(batch).sum().backward()
                optimizer.step()
    finally:
        watch.stop()
    assert kinds == ["generation" if is_trained_on else "evaluation"] * 6 + ["training"] * 3


def test_a_worker_of_a_data_loader_takes_no_rank(tmp_path, monkeypatch):
    """It may train briefly for data loading, but the loop belongs to its parent."""
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: "the first")
    loop = program_loop._Loop(tmp_path, LoopPlan(), lambda *_: None)
    model = torch.nn.Linear(1, 1)
    loop.training_call_begins(model, (), {})
    loop.optimizer_stepped(model.weight)
    assert loop.recorder is None
    assert list(tmp_path.iterdir()) == []


def test_an_optimizer_that_threads_step_in_turn_is_noticed():
    class Steps(Observer):
        elsewhere_count = 0

        def stepped_elsewhere(self):
            self.elsewhere_count += 1

    observer, model = Steps(), torch.nn.Linear(1, 1)
    watch, optimizer = LoopWatch(observer), torch.optim.SGD(model.parameters())
    watch.thread.bind(lambda: None)
    for _ in range(2):
        watch.after_optimizer_step(optimizer)
        on_a_thread(lambda: watch.after_optimizer_step(optimizer))
    assert observer.elsewhere_count == 2


def test_the_first_step_with_ranges_is_cold():
    assert warm_ns([900, 10, 12]) == 10
    assert warm_ns([900]) == 900
    assert median_ns([]) is warm_ns([]) is None


@dataclass
class Loop:
    request: Path
    requested: windows.Windows
    now_s: float = 0.0
    step: int = 8

    def begins(self):
        self.step += 1
        return self.requested.begin_if_due(self.step)

    def end_window(self):
        while not self.requested.step_ended():
            pass
        self.requested.wait(self.step)


@pytest.fixture
def loop(tmp_path, monkeypatch):
    request = tmp_path / "ask"
    plan = LoopPlan(request=str(request), profiled_count=2)
    made = Loop(request, windows.Windows(plan, Place(0, 0, 1)))
    monkeypatch.setattr(windows, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    made.requested.wait(made.step)
    return made


def test_a_file_that_is_written_after_it_was_seen_asks_once(loop):
    assert loop.begins() is None
    loop.request.touch()
    os.utime(loop.request, ns=(1, 1))
    assert loop.begins() is None, "its number may come yet"
    loop.now_s = 0.1
    loop.request.write_text("3")
    os.utime(loop.request, ns=(2, 2))
    assert loop.begins() == 3
    loop.end_window()
    loop.now_s = 9.0
    assert loop.begins() is None


def test_an_empty_file_asks_for_the_usual_window(loop):
    loop.request.touch()
    assert loop.begins() is None
    loop.now_s = 0.2
    assert loop.begins() is None
    loop.now_s = 0.3
    assert loop.begins() == 2
    loop.end_window()
    assert loop.begins() is None
    # Written once more, it asks once more.
    loop.request.write_text("")
    os.utime(loop.request, ns=(5, 5))
    assert loop.begins() is None
    loop.now_s = 0.6
    assert loop.begins() == 2


def test_a_model_can_go_while_another_window_may_come(tmp_path):
    model = torch.nn.Linear(4, 4)
    plan, watch = LoopPlan(request=str(tmp_path / "request")), LoopWatch(Observer())
    recorder = LoopRecorder(plan, Place(0, 0, 1), tmp_path, [model], watch, LoopProfilers())
    recorder.begin_step()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    recorder.end_step()
    recorder.abandon()
    assert recorder.report.model["parameter_count"] == 20


def test_the_search_for_the_model_of_a_tensor_backs_off(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(program_loop, "owner_of", found.append)
    loop = program_loop._Loop(tmp_path, LoopPlan(), lambda *_: None)
    image = torch.zeros(4, requires_grad=True)
    for _ in range(100):
        loop.optimizer_stepped(image)
    assert len(found) == 6, "after 2, 4, 8, 16, 32 and 64 steps"


def test_two_steps_are_timed_in_the_shortest_loop():
    shortest = next(plan for count in range(20) if (plan := LoopPlan().fitted(count)))
    assert (shortest.warmup_count, shortest.measured_count, shortest.profiled_count) == (1, 2, 1)


IDS = torch.zeros((3, 5), dtype=torch.int64)
PICTURES = torch.zeros((3, 2, 4, 4))


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((IDS,), {}, 15),
        ((), {"input_ids": IDS, "labels": IDS}, 15),
        (({"input_ids": IDS},), {}, 15),
        ((PICTURES,), {"input_ids": IDS}, 15),
        ((None, IDS), {}, 15),
        ((PICTURES, IDS), {}, 0),  # labels
        ((torch.zeros(3, 2), torch.zeros((2, 9), dtype=torch.int64)), {}, 0),  # edges of a graph
        ((PICTURES,), {"labels": IDS}, 0),
        ((), {"tokens": IDS}, 15),
        ((), {"idx": IDS, "targets": IDS}, 15),
        ((), {"attention_mask": IDS, "labels": IDS, "x": IDS}, 15),
        (({"tokens": IDS, "labels": IDS},), {}, 15),
        ((), {"labels": IDS, "pixel_values": PICTURES}, 0),
        ((), {"edge_index": IDS, "x": torch.zeros(3, 2)}, 0),
    ],
)
def test_inputs_that_count_as_tokens(args, kwargs, expected):
    assert counted(torch.nn.Linear(1, 1), (args, kwargs)).total == expected


def test_the_batch_may_be_the_second_dimension():
    plain = counted(torch.nn.Embedding(4, 2), ((IDS,), {}))
    assert (plain.batch_size, plain.sequence_length) == (3, 5)
    recurrent = counted(torch.nn.LSTM(2, 2), ((IDS,), {}))
    assert (recurrent.total, recurrent.batch_size, recurrent.sequence_length) == (15, None, None)
    lstm = counted(torch.nn.LSTM(2, 2, batch_first=True), ((IDS,), {}))
    assert (lstm.batch_size, lstm.sequence_length) == (3, 5)


def test_parts_of_a_model_are_given_the_same_tokens():
    counter = TokenCounter()
    counter.begin()
    words, places = torch.nn.Embedding(4, 2), torch.nn.Embedding(4, 2)
    for _ in range(2):
        for part in (words, places):
            counter.count(part, (IDS,), {})
        counter.keep_step()
    assert counter.total == 2 * 15


def test_vmap_hides_the_batch():
    model = torch.nn.Embedding(4, 2)
    counter = TokenCounter()
    counter.begin()

    def one(ids):
        counter.count(model, (ids[None],), {})
        return model(ids)

    torch.vmap(one)(torch.zeros((8, 16), dtype=torch.int64))
    counter.keep_step()
    assert (counter.total, counter.batch_size, counter.sequence_length) == (8 * 16, 8, 16)


@pytest.mark.parametrize(
    ("given", "is_changed", "count"),
    [
        # After a change of the parameters, as of SAM and LBFGS; else it is accumulated.
        (lambda _: IDS[:, :-1], True, 1),
        (lambda _: IDS[:, :-1].clone(), True, 1),
        (lambda _: IDS[:, :-1], False, 2),
        (lambda _: IDS[:, :-1].clone(), False, 2),
        # As for a critic that steps more often: parameters and inputs change.
        (lambda number: IDS[:, :-1] + number, True, 2),
    ],
)
def test_a_batch_that_is_seen_again_counts_once(given, is_changed, count):
    model = torch.nn.Embedding(4, 2)
    counter = TokenCounter()
    counter.begin()
    for _ in range(3):
        for number in (0, 1):
            counter.count(model, (given(number),), {})
            if is_changed:
                with torch.no_grad():
                    model.weight.add_(1)
        counter.keep_step()
    counter.end()
    assert counter.total == 3 * count * 12


def test_varying_lengths_are_a_range():
    model = torch.nn.Embedding(4, 2)
    other = torch.zeros((3, 1200), dtype=torch.int64)
    counter = counted(model, ((IDS,), {}), ((other,), {}))
    assert (counter.batch_size, counter.sequence_length) == (3, None)
    assert counter.ranges == "5 to 1,200 tokens per sequence"
    assert counted(model, ((IDS,), {})).ranges is None


@pytest.mark.parametrize(
    ("args", "expected"), [((PICTURES,), True), ((IDS,), False), ((IDS[0],), False), ((), False)]
)
def test_inputs_without_token_ids(args, expected):
    assert counted(torch.nn.Linear(1, 1), (args, {})).is_without_ids is expected


def counted(module, *calls):
    counter = TokenCounter()
    counter.begin()
    for args, kwargs in calls:
        counter.count(module, args, kwargs)
    counter.keep_step()
    return counter
