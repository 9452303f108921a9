"""Real programs with one randomly chosen fault each, with a variant without the fault."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from seeded_faults import Fault


def real_faults(seed: int) -> list[Fault]:
    """Return faults of training loops on this machine."""
    draw = random.Random(seed)

    def base(**options: Any) -> dict[str, Any]:
        return {
            "width": draw.choice((256, 384, 512)),
            "layers": draw.choice((2, 3, 4)),
            "batch": draw.choice((48, 64, 96)),
            "stack": True,
        } | options

    def fault(name: str, rule: str, shared: dict[str, Any], ranks: int = 1, **wrong: Any) -> Fault:
        return Fault(name, rule, shared | wrong, shared, ranks)

    def swapped(name: str, rule: str, wrong: dict[str, Any], right: dict[str, Any],
                ranks: int = 1, **shared: Any) -> Fault:  # fmt: skip
        common = base(**shared)
        return Fault(name, rule, common | wrong, common | right, ranks)

    two = {"ddp": True}
    sleep = {"load_ms": round(draw.uniform(10, 30), 1)}
    slow = {"load_ms": round(draw.uniform(60, 90), 1)}
    large = {"width": 768, "hidden": 3072, "batch": 8, "layers": 3}
    uneven = draw.choice((80, 96, 112))
    return [
        replace(swapped("slow loader", "advice_loading", sleep, sleep | {"workers": 2}),
                is_asked=True),
        swapped("one slow worker", "advice_loading", slow | {"workers": 1},
                {"workers": 1}),
        fault("sleep in the loop", "advice_python", base(), pause_ms=round(draw.uniform(5, 20), 1)),
        fault("garbage collection in each step", "advice_python", base(), collect=True),
        fault("metrics written in each step", "advice_python", base(),
              dump=draw.randrange(3_000, 9_000)),
        fault("Python in each batch", "advice_python", base(),
              python=draw.randrange(200_000, 400_000)),
        fault("unneeded recomputation", "advice_recompute", base(modules=True),
              recompute=True),
        swapped("for-loop Adam", "advice_optimizer", {"optimizer": "single"},
                {"optimizer": "fused"}, **large),
        swapped("for-loop Adam, small tensors", "advice_optimizer", {"optimizer": "single"},
                {"optimizer": "fused"}, width=64, hidden=64, layers=8, batch=16),
        swapped("unfused attention", "advice_attention", {"attention": "pieces"},
                {"attention": "fused"}, width=128, hidden=128, modules=True,
                batch=draw.choice((512, 768))),
        fault("64-bit floats", "advice_precision", base(), double=True),
        fault("gradients reduced in each micro-batch", "advice_accumulation",
              base(**two, accumulate=draw.choice((3, 4)), batch=16), 2, no_sync=False),
        fault("tiny buckets", "advice_small_messages",
              base(**two, layers=16, width=32, hidden=32), 2,
              bucket_mb=0.002),
        swapped("uneven batches", "advice_slow_rank", {"batch": 32, "batch_of_rank1": uneven},
                {"batch": (32 + uneven) // 2}, 2, **two),
        fault("one rank sleeps", "advice_python", base(**two), 2,
              pause_ms=round(draw.uniform(20, 50), 1)),
        fault("slow loader of one rank", "advice_loading", base(**two), 2,
              load_ms=round(draw.uniform(20, 50), 1), loaded_rank=1),
    ]  # fmt: skip


def third_party_faults(seed: int) -> list[Fault]:
    """Return faults in training loops of transformers, PEFT with accelerate, and Lightning."""
    draw = random.Random(seed)

    def fault(name: str, rule: str, shared: dict[str, Any], wrong: dict[str, Any],
              **right: Any) -> Fault:  # fmt: skip
        shared["batch"] = draw.choice((4, 6, 8))
        return Fault(name, rule, shared | wrong, shared | right, script="trainers.py",
                     is_asked="workers" in right)  # fmt: skip

    def ms(low: float, high: float) -> float:
        return round(draw.uniform(low, high), 1)

    lightning = {"loop": "lightning", "layers": draw.choice((3, 4)), "width": 512}
    return [
        fault("Trainer: slow dataset", "advice_loading", {"load_ms": ms(15, 30)}, {},
              workers=2),
        fault("Trainer: unneeded recomputation", "advice_recompute",
              {"layers": draw.choice((3, 4))}, {"recompute": True}),
        fault("Trainer: unfused attention", "advice_attention",
              {"length": draw.choice((384, 512)), "width": 128}, {"attention": "eager"}),
        fault("Trainer: for-loop Adam", "advice_optimizer",
              {"length": 16, "width": draw.choice((512, 640))}, {"optimizer": "adamw_torch"}),
        fault("PEFT: garbage collection in each step", "advice_python", {"loop": "peft"},
              {"collect": True}),
        fault("Lightning: callback that waits", "advice_python", lightning,
              {"pause_ms": ms(40, 80)}),
    ]  # fmt: skip


def serving_faults(seed: int) -> list[Fault]:
    """Return faults of loads on transformers' engine with a small model."""
    draw = random.Random(seed)

    def load(**options: Any) -> dict[str, Any]:
        return {f"--{name.replace('_', '-')}": value for name, value in options.items()}

    def limited(name: str, rule: str, place: str, shared: dict[str, Any], option: str, wrong: int,
                right: int) -> Fault:  # fmt: skip
        return Fault(name, rule, shared | {option: wrong}, shared | {option: right},
                     script="served.py", place=place)  # fmt: skip

    def engine(name: str, place: str, shared: dict[str, Any], **wrong: Any) -> Fault:
        return Fault(name, "advice_serving_host", shared | wrong, shared, script="served.py",
                     place=place)  # fmt: skip

    queue = "advice_serving_queue"
    queued = load(requests=40, arrival=f"poisson:{draw.randint(28, 34)}", prompt_len=64,
                  max_new_tokens=32, cache_blocks=64, no_profile="")  # fmt: skip
    long = load(requests=24, arrival=f"poisson:{draw.randint(7, 10)}", prompt_len=512,
                max_new_tokens=32, concurrency=6)  # fmt: skip
    return [
        limited("batch limit too small", queue, "limit of running requests", queued,
                "--max-batch-requests", 2, 4),
        limited("client with few requests in flight", queue, "queue before sending", queued,
                "--concurrency", 2, 4),
        replace(limited("long prefill steps", "advice_serving_prefill", "tokens per step", long,
                        "--max-batch-tokens", 512, 64), is_asked=True),
        engine("slow scheduler", "scheduling",
               load(requests=8, prompt_len=32, max_new_tokens=draw.randint(32, 44)),
               sleep_ms=round(draw.uniform(8, 14), 1)),
        engine("detokenization in each step", "detokenization",
               load(requests=8, prompt_len=32, max_new_tokens=draw.randint(32, 40), with_stack=""),
               texts=draw.randint(14, 18)),
    ]  # fmt: skip


def real_healthy(seed: int) -> list[Fault]:
    """Return training loops without a fault."""
    draw = random.Random(seed)
    return [
        Fault(name, None, {"batch": draw.choice((192, 256)), "stack": True, **options}, ranks=ranks)
        for name, ranks, options in (
            ("plain", 1, {}),
            ("wide", 1, {"width": 768, "hidden": 2048, "layers": 2}),
            ("fused optimizer", 1, {"optimizer": "fused"}),
            ("with worker", 1, {"workers": 1}),
            ("two ranks", 2, {"ddp": True}),
        )
    ]
