"""`transformers serve` as the server of `--engine openai`, with a model that is made here."""

import json
import shlex
import shutil
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import finished, free_port
from training_cases import SIZES

from tracekit import manifest

for package in ("torch", "fastapi", "uvicorn", "openai"):
    # To import openai takes longer than all else that collecting the tests imports.
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
transformers = pytest.importorskip("transformers")

PROGRAM = shutil.which("transformers", path=str(Path(sys.executable).parent))

pytestmark = [
    pytest.mark.nightly("one load on the embedded engine runs in the gate"),
    pytest.mark.skipif(PROGRAM is None, reason="no transformers command next to python"),
]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """Return a tiny model with a tokenizer of one token per word, which never ends by itself."""
    import tokenizers

    folder = tmp_path_factory.mktemp("model")
    words = ["<unk>", *(f"w{number}" for number in range(255))]
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>"
    ).save_pretrained(folder)
    config = transformers.LlamaConfig(**SIZES, bos_token_id=None, eos_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_a_load_on_transformers_serve(model_folder, tmp_path):
    port = free_port()
    folder = tmp_path / "run"
    # The server lists the download cache, and fails if its folder does not exist.
    (tmp_path / "hub").mkdir()
    launch = (
        f"{shlex.quote(str(PROGRAM))} serve {shlex.quote(str(model_folder))} --device cpu "
        f"--host 127.0.0.1 --port {port} --continuous-batching --cb-num-blocks 64 "
        "--cb-block-size 16 --cb-max-batch-tokens 64"
    )
    done = finished(
        *(sys.executable, "-m", "tracekit.collectors", "--stage", "serve", "--engine", "openai"),
        *("--url", f"http://127.0.0.1:{port}", "--launch", launch),
        *("--served-model", model_folder, "--requests", 10, "--prompt-len", 24),
        *("--max-new-tokens", 8, "--warmup-requests", 2, "--startup-timeout", 300),
        *("--timeout", 300, "--out", folder),
        HF_HUB_CACHE=str(tmp_path / "hub"),
        HF_HUB_OFFLINE="1",
        OMP_NUM_THREADS="1",
    )
    assert done.returncode == 0, done.stderr
    run = manifest.read(folder)
    assert (run.engine, run.outcome, run.traces) == ("openai", "ok", [])
    assert (run.load.ok_count, run.load.failed_count, run.load.prompt_source) == (10, 0, "usage")
    lines = (folder / "requests.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 12
    for record in map(json.loads, lines):
        assert record["outcome"] == "ok", record["reason"]
        assert (record["prompt_token_count"], record["output_token_count"]) == (24, 8)
        assert record["sent_ns"] < record["first_token_ns"] <= record["end_ns"]
    # The server was ended with the run.
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
