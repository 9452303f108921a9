"""The steps of transformers' continuous batching: their batches and their output."""

import contextlib
from collections import Counter

import pytest

from tracekit.collectors.model import models
from tracekit.collectors.serving.embedded.continuous_batching import ContinuousBatching
from tracekit.collectors.serving.embedded.steps import Batch, Share, StepRecorder, add_step
from tracekit.collectors.serving.run import token_id_prompts
from tracekit.errors import WorkloadError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

nightly = pytest.mark.nightly("one load on the embedded engine runs in the gate")

PROMPT_LEN = 40
NEW_TOKEN_COUNT = 10
SIZES = ("page_size", "num_blocks", "max_batch_tokens", "max_requests_per_batch")


@pytest.fixture(scope="module")
def model():
    config = models.model_config("tiny")
    config.num_hidden_layers = 2
    return models.build(config, seed=0, dtype=torch.float32, attention="sdpa").eval()


def prompts_of(count, prompt_len=PROMPT_LEN):
    prompts = token_id_prompts(count, prompt_len, 2048, seed=0)
    return [list(prompt.token_ids or ()) for prompt in prompts]


class Recorder(StepRecorder):
    def __init__(self):
        super().__init__()
        self.batches = []

    def batch_chosen(self, batch):
        self.batches.append(batch)

    def stage(self, name):
        assert name in {"schedule", "prepare", "compute", "update"}
        return contextlib.nullcontext()


def generate_all(model, prompts, size, new_token_count):
    recorder = Recorder()
    outputs = {}
    with ContinuousBatching(model, dict(zip(SIZES, size, strict=True)), recorder) as engine:
        for index, prompt in enumerate(prompts):
            engine.submit(str(index), prompt, new_token_count)
        while len(outputs) < len(prompts):
            output = engine.result(300.0)
            assert output.error is None
            outputs[int(output.request_id)] = output.generated_tokens
    return outputs, recorder.batches


def reference(model, prompts, new_token_count):
    ids = torch.tensor(prompts)
    generated = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=new_token_count,
        min_new_tokens=new_token_count,
        use_cache=True,
    )
    return {index: row.tolist() for index, row in enumerate(generated[:, ids.shape[1] :])}


@nightly
def test_outputs_are_those_of_generate(model):
    prompts = prompts_of(6)
    # Small steps cut the prompts up, and a small cache makes requests wait for others.
    outputs, batches = generate_all(model, prompts, (16, 24, 32, 6), NEW_TOKEN_COUNT)
    assert outputs == reference(model, prompts, NEW_TOKEN_COUNT)
    assert {batch.phase for batch in batches} == {"prefill", "mixed", "decode"}


@nightly
def test_a_request_that_is_evicted_from_the_cache(model):
    prompts = prompts_of(4)
    # The prompts fit, and their answers do not.
    outputs, batches = generate_all(model, prompts, (16, 12, 64, 4), 40)
    assert outputs == reference(model, prompts, 40)
    shares = [share for batch in batches for share in batch.shares]
    prefilled = sum(share.token_count for share in shares if share.is_prefill)
    assert prefilled > 4 * PROMPT_LEN, "no prompt was computed again"
    tokens = Counter(share.request_id for share in shares if share.gives_token)
    assert tokens == {str(index): 40 for index in range(4)}


@nightly
def test_one_token_of_a_prompt_is_prefill(model):
    _, batches = generate_all(model, prompts_of(1, 17), (16, 8, 16, 1), 3)
    assert [batch.range_name for batch in batches] == [
        "tk/batch/prefill_1(16)_decode_0(0)",
        "tk/batch/prefill_1(1)_decode_0(0)",
        "tk/batch/prefill_0(0)_decode_1(1)",
        "tk/batch/prefill_0(0)_decode_1(1)",
    ]
    gives_token = [share.gives_token for batch in batches for share in batch.shares]
    assert gives_token == [False, True, True, True]


@nightly
def test_another_version_of_transformers_is_named(model, monkeypatch):
    from transformers.generation.continuous_batching.scheduler import FIFOScheduler

    monkeypatch.delattr(FIFOScheduler, "schedule_batch")
    monkeypatch.setattr(FIFOScheduler, "__abstractmethods__", frozenset())
    monkeypatch.delattr(FIFOScheduler.__mro__[1], "schedule_batch")
    with pytest.raises(WorkloadError) as caught:
        generate_all(model, prompts_of(1), (16, 8, 16, 1), 3)
    assert transformers.__version__ in caught.value.message
    assert "FIFOScheduler.schedule_batch" in caught.value.message
    assert "pip install" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("shares", "phase", "name"),
    [
        ([(5, True)], "prefill", "prefill_1(5)_decode_0(0)"),
        ([(1, True)], "prefill", "prefill_1(1)_decode_0(0)"),
        ([(1, False), (1, False)], "decode", "prefill_0(0)_decode_2(2)"),
        ([(1, False), (7, True), (2, True)], "mixed", "prefill_2(9)_decode_1(1)"),
    ],
)
def test_phase_and_name_of_a_batch(shares, phase, name):
    batch = Batch(3, [Share("a", count, is_prefill, True) for count, is_prefill in shares])
    assert (batch.phase, batch.range_name) == (phase, f"tk/batch/{name}")


def test_steps_of_a_request_are_ranges():
    steps = []
    for number in (4, 5, 5, 6, 9, 12, 13):
        add_step(steps, number)
    assert steps == [[4, 6], [9, 9], [12, 13]]
