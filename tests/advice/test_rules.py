"""Advice rules as files; tests/cases/advice.case and others test their results."""

import re
import shlex
from pathlib import Path

import pytest
from every_trace import SAMPLES
from traces_by_hand import work

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.names.rules import builtin_content, load_fusion_rules
from tracekit.errors import UsageError
from tracekit.prediction.advising import COLUMNS

H200 = Path(__file__).parents[3] / "shared" / "h200"
EVIDENCE = re.compile(r"'(tracekit (?:[^']|'')*)'")
SERVED = next(one for one in SAMPLES if one.name == "serve_transformers")
RULES = [one.name for one in load_catalog().analyses.titles() if one.subject == "advice"]
FUSIONS = builtin_content("fusions.toml")["fusion"]
CASES = "".join(
    (Path(__file__).parents[1] / "cases" / f"{name}.case").read_text("utf-8")
    for name in ("advice", "trusted_advice", "serving_advice", "fused")
)


def test_a_rule_has_the_columns_of_one():
    for rule in RULES:
        assert load_catalog().analysis(rule).column_names == COLUMNS, rule


def test_every_chain_has_a_source_and_a_case():
    for rule in FUSIONS:
        assert rule["source"]
        assert f'"unfused {rule["name"]}"' in CASES, rule["name"]


def test_a_single_kernel_allows_no_change(tiny_trace):
    path = tiny_trace([*work(0, 5, 100, 1), *work(10, 100, 200, 2)])
    with tracekit.open(path, cache=False) as trace:
        for rule in RULES:
            if rule != "advice_serving_queue":
                assert trace.query(rule).to_dicts() == [], rule


@pytest.mark.nightly("runs every command that shows evidence")
def test_commands_for_evidence_exist(cli):
    """Run the commands that the SQL of the rules names; all must exist."""
    commands = set()
    for rule in RULES:
        text = load_catalog().analysis(rule).sql
        commands |= {one.replace("''", "'") for one in EVIDENCE.findall(text)}
    assert len(commands) > 10
    for command in sorted(commands):
        words = shlex.split(command.replace("TRACE", str(SERVED)))
        answer = cli(*words[1:])
        assert answer.exit_code == 0, (command, answer.stderr)


def test_a_rules_file_adds_chains(tiny_trace, tmp_path):
    rules = tmp_path / "mine.toml"
    rules.write_text("[[fusion]]\nname = 'mine'\nchain = ' one$ >  two$'\nremedy = 'both()'\n")
    events = [*work(0, 3, 5, 1, "one"), *work(6, 9, 12, 2, "two")]
    with tracekit.open(tiny_trace(events), cache=False, rules=rules) as trace:
        (row,) = trace.query("advice_library_kernels").to_dicts()
    assert (row["place"], row["cost_ns"], row["remedy"]) == ("unfused mine", 2_000, "both()")
    rules.write_text("[[fusion]]\nname = 'mine'\nchain = '('\nremedy = 'both()'\n")
    with pytest.raises(UsageError):
        load_fusion_rules(rules)


@pytest.mark.nightly("recordings of a GPU")
@pytest.mark.skipif(not H200.is_dir(), reason="recordings of a GPU are not here")
@pytest.mark.parametrize(
    "path",
    [one for one in sorted(H200.glob("*.json.gz")) if "execution_trace" not in one.name],
    ids=lambda path: path.name[:-8],
)
def test_only_the_loop_that_sleeps_pauses(path):
    with tracekit.open(path, cache=False) as trace:
        rows = trace.query("advice_pauses").to_dicts()
    assert bool(rows) == (path.name == "llama_loader.json.gz")
    if rows:
        # CUDA events measured 30.36 ms in the recorded steps, including 0.02 ms of the event
        # itself.
        assert abs(rows[0]["cost_ns"] / 3 - 30.34e6) < 0.05e6


@pytest.mark.nightly("recordings of a GPU")
@pytest.mark.parametrize(
    ("name", "layer_count"),
    {"llama_base": 8, "llama_bs8": 8, "llama_recompute": 8, "small_base": 12}.items(),
)
def test_chains_of_a_llama(name, layer_count):
    """Two norms a layer and one after all, RoPE of queries and of keys, one MLP; 3 or 2 steps."""
    path = H200 / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip(f"no recording {path}")
    with tracekit.open(path, cache=False) as trace:
        rows = {row["place"]: row for row in trace.query("advice_library_kernels").to_dicts()}
        ((steps,),) = trace.sql("SELECT count(*) FROM event WHERE name = 'aten::embedding'").rows
        ((recomputed,),) = trace.sql(
            "SELECT count(*) > 0 FROM attributed_events WHERE phase = 'recompute'"
        ).rows
    passes = steps * (1 + recomputed)
    norms = steps * (2 * layer_count + 1) + recomputed * steps * 2 * layer_count
    for place, count in {
        "unfused RMSNorm": norms,
        "unfused RoPE": passes * 2 * layer_count,
        "unfused SwiGLU": passes * layer_count,
    }.items():
        assert f": {count} chains" in rows[place]["what"], place
