"""A small decoder, its batches, and the printed lines that all loop programs share.

`marked` puts the loop's own step number into any trace that is being recorded, so that tests can
match a recorded step with the step that ran.

LOOP_STEPS and LOOP_WIDTH make a loop longer and its steps heavier. LOOP_DEVICE is `cpu` or `cuda`.
LOOP_TIMES names a file that receives the timestamp of each printed step in ns (set by the
benchmark).
"""

import atexit
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn import functional

STEPS = int(os.environ.get("LOOP_STEPS", "12"))
WIDTH = int(os.environ.get("LOOP_WIDTH", "32"))
DEVICE = os.environ.get("LOOP_DEVICE", "cpu")
VOCABULARY = 64
BATCH = 2
LENGTH = 16
TOKENS = BATCH * LENGTH

# Variables in which launchers pass the rank.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")

_times_ns = []


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        heads = self.qkv(self.norm(hidden)).view(batch, length, 3, 2, width // 2)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.down(functional.silu(self.up(self.norm(hidden))))


class Decoder(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids, labels=None):
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(self.norm(hidden))
        return logits if labels is None else loss_of(logits, labels)


def decoder(width=WIDTH):
    torch.manual_seed(0)
    return Decoder(width).to(DEVICE)


def loss_of(logits, ids):
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def batches(count=STEPS, seed=1, device=DEVICE):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator).to(device)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


def lines():
    """Return a callback for a Trainer that marks its steps and prints their losses."""
    from transformers import TrainerCallback

    class Lines(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            with marked(state.global_step):
                pass

        def on_log(self, args, state, control, logs=None, **kwargs):
            if "loss" in logs:
                say(state.global_step - 1, logs["loss"])

        def on_evaluate(self, args, state, control, metrics=None, **kwargs):
            tell(f"evaluation {metrics['eval_loss']:.7g}")

    return Lines()


def marked(number):
    """Return a range that says which step of the loop runs."""
    return torch.profiler.record_function(f"own/{number}")


def step(number, loss, *optimizers):
    with marked(number):
        loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    say(number, loss)


def train(count=STEPS, model=None, optimizer=None, *, seed=1, before=int, after=int):
    model = decoder() if model is None else model
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    for number, ids in enumerate(batches(count, seed)):
        before(number)
        step(number, loss_of(model(ids), ids), optimizer)
        after(number)


def say(number, loss):
    tell(f"step {number} loss {float(loss):.7g}")
    _times_ns.append(time.perf_counter_ns())


def tell(text):
    """Print a line, with the rank if there is one, in a single write."""
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), None)
    line = text if rank is None else f"rank {rank} {text}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def join():
    if DEVICE == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    rank = next(os.environ[name] for name in _RANKS if name in os.environ)
    distributed.init_process_group(
        "nccl" if DEVICE == "cuda" else "gloo",
        rank=int(rank),
        world_size=int(os.environ.get("WORLD_SIZE", "2")),
    )


def leave():
    """Leave the process group, and wait until its threads are idle.

    Gloo frees the tensors of the last collective on its own thread. If the interpreter exits
    meanwhile, the process ends with SIGABRT ("terminate called without an active exception"), in
    about one of twenty runs on a busy machine.
    """
    from tracekit.collectors.process.distributed import wait_for_gloo_threads

    distributed.barrier()
    distributed.destroy_process_group()
    wait_for_gloo_threads(limit_s=60)


def tell_compiled():
    from torch._dynamo.utils import compilation_time_metrics, counters

    stats = {name: counters["stats"][name] for name in ("unique_graphs", "calls_captured")}
    breaks = sum(counters["graph_break"].values())
    frames = len(compilation_time_metrics.get("_compile.compile_inner", ()))
    tell(f"dynamo {json.dumps(stats)} breaks {breaks} compiled {frames}")
    tell(f"recompiles {json.dumps(dict(sorted(counters['recompiles'].items())))}")


if "LOOP_TIMES" in os.environ and os.environ.get("RANK", "0") == "0":

    @atexit.register
    def _write_times():
        if _times_ns:
            Path(os.environ["LOOP_TIMES"]).write_text(json.dumps(_times_ns), "utf-8")
