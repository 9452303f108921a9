"""`run.json`: written and read back, and refused if it is invalid."""

import json

import msgspec
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

SMALLEST = {
    "run_id": "a",
    "tracekit_version": "0.1.0",
    "created_at": "2026-01-31T12:00:00Z",
    "stage": "pretrain",
    "engine": "ddp",
}

FULL = Manifest(
    **SMALLEST, outcome="oom", reason="CUDA out of memory",
    command=["tracekit", "collect", "--opt", "F+R+Z3"], opt="F+R+Z3",
    model=Model(
        "llama2-7b", "LlamaForCausalLM", 6_738_415_616, 6_738_415_616, 32, {"a": [1, None]}
    ),
    batch_size=2, sequence_length=350, precision="bf16", seed=0, attention_backend="flash_attn",
    attention_reason="flash-attn 2.8 is installed", parallel=Parallel(8, 4, 2, 1, 1),
    steps=Steps(30, 100, 3, 10), repeats=[Repeat(1000.5, 35_000_000, [350_000, 351_000], 2.25)],
    tokens_per_s_mean=1000.5, peak_memory=[RankMemory(0, 40_000_000_000, 42_000_000_000, None)],
    overhead=Overhead(350_000, 340_000, 370_000, 100, {"forward": 90_000}, 360_000, 700_000),
    environment=Environment(
        devices=["NVIDIA A800"], packages={"torch": "2.13.0"}, core_count=64, thread_count=8
    ),
    load=Load(1000, 512, 128, server={"version": "1"}), traces=["rank0.json.gz"], notes=["a ü"],
    extra={"buckets": {"count": 3}},
)  # fmt: skip


def written(folder, content):
    path = folder / "run.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("given", [FULL, Manifest(**SMALLEST)], ids=["full", "smallest"])
def test_write_and_read(tmp_path, given):
    path = manifest.write(given, tmp_path)
    assert path == tmp_path / "run.json"
    assert manifest.read(path) == manifest.read(tmp_path) == given
    assert path.read_text("utf-8") == manifest.to_json(given)


def test_no_member_keeps_a_secret(tmp_path):
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
    assert kept.reason == "no answer from https://bucket/trace?sig=(redacted)&sv=1"
    assert kept.environment.variables["NCCL_DEBUG"] == "INFO"
    assert manifest.to_json(kept) == manifest.to_json(run)


def test_the_text_is_readable():
    text = manifest.to_json(FULL)
    assert text.startswith('{\n  "run_id": "a",\n')
    assert text.endswith("}\n")
    assert "a ü" in text
    assert json.loads(text) == msgspec.to_builtins(FULL)


def test_missing_members_have_defaults(tmp_path):
    assert manifest.read(written(tmp_path, SMALLEST)) == Manifest(**SMALLEST)


def test_unknown_members_are_ignored(tmp_path):
    later = SMALLEST | {"color": "red", "parallel": {"world_size": 2, "expert_size": 2}}
    found = manifest.read(written(tmp_path, later))
    assert found == Manifest(**SMALLEST, parallel=Parallel(world_size=2))


def test_an_integral_float_is_a_number(tmp_path):
    found = manifest.read(written(tmp_path, SMALLEST | {"tokens_per_s_mean": 1000}))
    assert isinstance(found.tokens_per_s_mean, float)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        *(
            (json.dumps(SMALLEST | members), word)
            for members, word in (
                ({"run_id": None}, "run_id"),
                ({"stage": "eval"}, "stage"),
                ({"batch_size": True}, "batch_size"),
                ({"batch_size": 1.5}, "batch_size"),
                ({"parallel": None}, "parallel"),
                ({"repeats": [{"wall_ns": 1}]}, "repeats[0]"),
                ({"batch_size": -4}, "batch_size"),
                ({"tokens_per_s_mean": float("nan")}, "tokens_per_s_mean"),
                ({"repeats": [{"tokens_per_s": 1, "wall_ns": 1, "step_ns": [1, -2]}]}, "step_ns"),
            )
        ),
        *((text, "JSON") for text in ("", "{", "[" * 100_000, "[]", "null")),
        ('{"schema_version": 99, "everything": "else"}', "99"),
    ],
)
def test_invalid_manifests_are_refused(tmp_path, content, word):
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(TraceError) as raised:
        manifest.read(path)
    assert raised.value.message.startswith(f"{path}: ")
    assert word in raised.value.message
    assert (raised.value.hint is not None) == (word == "99")


def test_only_amounts_must_not_be_negative(tmp_path):
    repeat = {"tokens_per_s": 1, "wall_ns": 1, "final_loss": float("nan")}
    members = {"seed": -1, "exit_code": -9, "repeats": [repeat]}
    assert manifest.read(written(tmp_path, SMALLEST | members)).seed == -1


def test_a_missing_manifest(tmp_path):
    with pytest.raises(TraceError, match=f"^{tmp_path / 'run.json'}: "):
        manifest.read(tmp_path)


def test_the_peak_memory_is_that_of_the_largest_rank():
    run = Manifest(**SMALLEST, peak_memory=[RankMemory(0, 4, 5, 9), RankMemory(1, None, None, 7)])
    assert manifest.peak_bytes(run) == 7
    run.peak_memory = [RankMemory(0, None, None, None)]
    assert manifest.peak_bytes(run) is None
    run.peak_memory = []
    assert manifest.peak_bytes(run) is None
