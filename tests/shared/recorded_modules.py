"""Small models that train, and the ranges that a profiler sees while they do."""

import warnings

import pytest
from trace_files import read_trace
from training_cases import SIZES

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from tracekit.collectors import ranges  # noqa: E402
from tracekit.collectors.profiler.profile import Profile  # noqa: E402

TOKENS = torch.arange(2 * 128).reshape(2, 128) % 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.inner(x))


def tiny_llama(mode="plain", attention="eager"):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, attn_implementation=attention, use_cache=False)
    model = transformers.LlamaForCausalLM(config).train()
    if mode != "plain":
        enable_checkpointing(model, is_reentrant=mode == "reentrant")
        if mode == "reentrant":
            model.enable_input_require_grads()
    return model


def enable_checkpointing(model, *, is_reentrant):
    options = {"use_reentrant": is_reentrant}
    if hasattr(model, "activation_checkpointing_enable"):  # transformers 5.20 renamed it
        model.activation_checkpointing_enable(options)
    else:
        model.gradient_checkpointing_enable(options)


def lora():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        # peft imports a name that transformers renamed.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(tiny_llama(), config)


def train_step(model):
    with ranges.phase("forward"):
        loss = model(input_ids=TOKENS, labels=TOKENS).loss
    with ranges.phase("backward"):
        loss.backward()
    return loss.detach()


def spans_of(path):
    return [
        span for span in read_trace(path)["traceEvents"] if span.get("cat") == "user_annotation"
    ]


def recorded(path, run, **options):
    """Return the ranges that a profiler records while a function runs, in order of start."""
    profile = Profile(path / "trace.json.gz", {}, **options)
    profile.start()
    try:
        run()
    finally:
        profile.stop()
    spans = [span for span in spans_of(profile.export()) if span["name"].startswith("tk/")]
    assert_nested(spans)
    return sorted(spans, key=lambda span: (span["ts"], -span["dur"]))


def assert_nested(spans):
    for tid in {span["tid"] for span in spans}:
        open_ends = []
        mine = [span for span in spans if span["tid"] == tid]
        for span in sorted(mine, key=lambda span: (span["ts"], -span["dur"])):
            end = span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= span["ts"]:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 0.001, span["name"]
            open_ends.append(end)


def hook_count(model):
    return sum(
        len(hooks)
        for module in model.modules()
        for hooks in (
            module._forward_hooks,
            module._forward_pre_hooks,
            module._forward_hooks_always_called,
            module._forward_pre_hooks_with_kwargs,
            module._backward_hooks,
        )
    )


def names(spans):
    return [span["name"] for span in spans]
