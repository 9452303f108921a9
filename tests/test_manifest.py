"""`run.json`: what is written is read back, and what is wrong with one is said."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tracekit import manifest
from tracekit.errors import TraceError
from tracekit.manifest import (
    Environment,
    Load,
    Manifest,
    Model,
    Overhead,
    Parallel,
    RankMemory,
    Repeat,
    Steps,
)

SMALLEST: dict[str, Any] = {
    "run_id": "a",
    "tracekit_version": "0.1.0",
    "created_at": "2026-01-31T12:00:00Z",
    "stage": "pretrain",
    "engine": "ddp",
}

FULL = Manifest(
    **SMALLEST,
    outcome="oom",
    reason="CUDA out of memory",
    command=["tracekit", "collect", "--opt", "F+R+Z3"],
    opt="F+R+Z3",
    model=Model(
        "llama2-7b", "LlamaForCausalLM", 6_738_415_616, 6_738_415_616, 32, {"a": [1, None]}
    ),
    batch_size=2,
    sequence_length=350,
    precision="bf16",
    seed=0,
    attention_backend="flash_attn",
    attention_reason="flash-attn 2.8 is installed",
    parallel=Parallel(8, 4, 2, 1, 1),
    steps=Steps(30, 100, 3, 10),
    repeats=[Repeat(1000.5, 35_000_000, [350_000, 351_000], 2.25)],
    tokens_per_s_mean=1000.5,
    peak_memory=[RankMemory(0, 40_000_000_000, 42_000_000_000, None)],
    overhead=Overhead(350_000, 340_000, 370_000, 100, {"forward": 90_000}, 360_000, 700_000),
    environment=Environment(
        devices=["NVIDIA A800"], packages={"torch": "2.13.0"}, core_count=64, thread_count=8
    ),
    load=Load(1000, 512, 128, server={"version": "1"}),
    traces=["rank0.json.gz"],
    notes=["a ü"],
    extra={"buckets": {"count": 3}},
)


def written(folder: Path, content: str | dict[str, Any]) -> Path:
    path = folder / "run.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("given", [FULL, Manifest(**SMALLEST)], ids=["full", "smallest"])
def test_what_is_written_is_read_back(tmp_path: Path, given: Manifest) -> None:
    path = manifest.write(given, tmp_path)
    assert path == tmp_path / "run.json"
    assert manifest.read(path) == manifest.read(tmp_path) == given
    assert path.read_text("utf-8") == manifest.to_json(given)


def test_no_member_keeps_a_secret(tmp_path: Path) -> None:
    url = "https://bucket/trace?sig=s3cr3t&sv=1"
    run = Manifest(
        **SMALLEST,
        reason=f"no answer from {url}",
        command=["tracekit", url, "--api-key", "s3cr3t"],
        notes=["server: HF_TOKEN=s3cr3t"],
        environment=Environment(variables={"WANDB_API_KEY": "s3cr3t", "NCCL_DEBUG": "INFO"}),
        extra={"launch": [{"password": "s3cr3t"}], "upload": url},
    )
    assert "s3cr3t" not in manifest.to_json(run)
    kept = manifest.read(manifest.write(run, tmp_path))
    assert kept.reason == "no answer from https://bucket/trace?sig=(not kept)&sv=1"
    assert kept.environment.variables["NCCL_DEBUG"] == "INFO"
    assert manifest.to_json(kept) == manifest.to_json(run)


def test_the_text_is_for_people_too() -> None:
    text = manifest.to_json(FULL)
    assert text.startswith('{\n  "run_id": "a",\n')
    assert text.endswith("}\n")
    assert "a ü" in text
    assert json.loads(text) == dataclasses.asdict(FULL)


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    assert manifest.read(written(tmp_path, SMALLEST)) == Manifest(**SMALLEST)


def test_members_that_are_not_known_are_left_out(tmp_path: Path) -> None:
    later = SMALLEST | {"color": "red", "parallel": {"world_size": 2, "expert_size": 2}}
    found = manifest.read(written(tmp_path, later))
    assert found == Manifest(**SMALLEST, parallel=Parallel(world_size=2))


def test_a_whole_number_is_a_number(tmp_path: Path) -> None:
    found = manifest.read(written(tmp_path, SMALLEST | {"tokens_per_s_mean": 1000}))
    assert isinstance(found.tokens_per_s_mean, float)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"run_id": None}, "Expected `str`, got `null` - at `$.run_id`"),
        ({"stage": "eval"}, "Invalid enum value 'eval' - at `$.stage`"),
        ({"batch_size": True}, "Expected `int | null`, got `bool` - at `$.batch_size`"),
        ({"batch_size": 1.5}, "Expected `int | null`, got `float` - at `$.batch_size`"),
        ({"parallel": None}, "Expected `object`, got `null` - at `$.parallel`"),
        (
            {"repeats": [{"wall_ns": 1}]},
            "Object missing required field `tokens_per_s` - at `$.repeats[0]`",
        ),
        ({"batch_size": -4}, "run.json: batch_size is -4, below zero"),
        ({"tokens_per_s_mean": float("nan")}, "run.json: tokens_per_s_mean is nan, not a number"),
        (
            {"repeats": [{"tokens_per_s": 1, "wall_ns": 1, "step_ns": [1, -2]}]},
            "run.json: repeats[0]: step_ns[1] is -2, below zero",
        ),
    ],
)
def test_a_member_of_a_wrong_type(tmp_path: Path, members: dict[str, Any], said: str) -> None:
    path = written(tmp_path, SMALLEST | members)
    with pytest.raises(TraceError) as raised:
        manifest.read(path)
    assert raised.value.message == f"{path}: the manifest is not valid: {said}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the manifest is no JSON: "),
        ("{", "the manifest is no JSON: "),
        ("[" * 100_000, "the manifest is no JSON: "),
        ("[]", "the manifest is no JSON object"),
        ("null", "the manifest is no JSON object"),
    ],
    ids=["empty", "cut off", "deep", "a list", "null"],
)
def test_what_is_no_manifest(tmp_path: Path, content: str, said: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(TraceError) as raised:
        manifest.read(path)
    assert raised.value.message.startswith(f"{path}: {said}")


def test_what_is_no_amount_may_be_below_zero(tmp_path: Path) -> None:
    repeat = {"tokens_per_s": 1, "wall_ns": 1, "final_loss": float("nan")}
    members = {"seed": -1, "exit_code": -9, "repeats": [repeat]}
    assert manifest.read(written(tmp_path, SMALLEST | members)).seed == -1


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"schema_version": 99, "everything": "else"})
    with pytest.raises(TraceError) as raised:
        manifest.read(path)
    assert raised.value.message == f"{path}: the manifest has version 99, this tracekit knows 3"
    assert raised.value.hint == "read it with the tracekit that wrote it, or a later one"


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as raised:
        manifest.read(tmp_path)
    path = tmp_path / "run.json"
    assert raised.value.message == f"{path}: the manifest cannot be read: No such file or directory"


def test_the_peak_is_of_the_rank_that_needed_most_and_unknown_where_none_was_measured() -> None:
    run = Manifest(**SMALLEST, peak_memory=[RankMemory(0, 4, 5, 9), RankMemory(1, None, None, 7)])
    assert manifest.peak_bytes(run) == 7
    run.peak_memory = [RankMemory(0, None, None, None)]
    assert manifest.peak_bytes(run) is None
    run.peak_memory = []
    assert manifest.peak_bytes(run) is None
