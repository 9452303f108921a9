"""Odd rules files and names are refused in one sentence, also when the cache could answer."""

import json

import pytest


def test_a_missing_file_is_no_hit_in_the_cache(cli, keep_stores, sample_trace, tmp_path):
    keep_stores(tmp_path / "cache", sample_trace)
    assert cli("query", "kernel_classes", sample_trace).exit_code == 0
    missing = tmp_path / "typo.toml"
    done = cli("query", "kernel_classes", sample_trace, "--rules", missing)
    assert (done.exit_code, done.stdout) == (2, "")
    assert str(missing) in done.stderr


def rule(**members):
    return "".join(["[[rule]]\n", *(f"{key} = {value}\n" for key, value in members.items())])


HOSTILE = {
    "another key": ('[[rules]]\nclass = "gemm"\npattern = "x"\n', "unknown key 'rules'"),
    "no rule": ("", "no rule found"),
    "a number for rules": ("rule = 5\n", "rule is not a list of tables"),
    "numbers for rules": ("range = [1, 2]\n", "range is not a list of tables"),
    "a list for a class": (rule(**{"class": '["a"]', "pattern": '"x"'}), "class is not a string"),
    "a number for a pattern": (rule(**{"class": '"a"', "pattern": "5"}), "pattern is not a string"),
    "a list for a category": (
        rule(**{"class": '"a"', "pattern": '"x"', "category": "[1]"}),
        "category is not a string",
    ),
    "a table for a kind": (
        "[class]\na = {kind = {b = 1}}\n" + rule(**{"class": '"a"', "pattern": '"x"'}),
        "class a has the kind {'b': 1}",
    ),
    "a text for a class": (
        "[class]\na = 'comm'\n" + rule(**{"class": '"a"', "pattern": '"x"'}),
        "[class] must be a table of class",
    ),
    "a number for what it applies to": (
        "[[range]]\napplies_to = 1\n",
        "applies_to is not a string",
    ),
    "100,000 brackets in a pattern": (
        rule(**{"class": '"a"', "pattern": '"' + "(" * 100_000 + '"'}),
        "is not a regular expression",
    ),
    "a zero byte": (rule(**{"class": '"a"', "pattern": '"a\\u0000"'}), "contains a zero byte"),
    "3,000 rules": (
        "".join(rule(**{"class": f'"c{at}"', "pattern": f'"k{at}.*"'}) for at in range(3_000)),
        "3,000 tables [[rule]], but at most 1,000 are allowed",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_named(cli, sample_trace, tmp_path, case):
    text, message = HOSTILE[case]
    rules = tmp_path / "mine.toml"
    rules.write_text(text)
    done = cli("query", "kernel_classes", sample_trace, "--rules", rules)
    assert (done.exit_code, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"error: {rules}: ")
    assert message in lines[0]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: "))
    assert len(lines[0]) < 1_000


LONG = "n" * 5_000


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("breakdown", LONG), 3),
        (("breakdown", f"{LONG}.duckdb"), 3),
        (("ingest", "x", "-o", f"{LONG}.duckdb"), 3),
        ((LONG,), 2),
    ],
)
def test_a_long_name(cli, arguments, exit_code):
    done = cli(*arguments)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert done.stderr.startswith("error: nnn")
    assert "File name too long" in done.stderr
    assert len(done.stderr) < 300


def test_a_long_message_is_cut(cli, tmp_path):
    (tmp_path / "a.baseline.json").write_text(json.dumps({"per": LONG}))
    assert len(cli("check", "baseline", "list", "--baselines", tmp_path).stderr) < 4_500


def test_half_a_character_in_a_run_id(cli, make_run):
    run = make_run("odd", requests=[{"request_id": 1, "outcome": "ok"}], traces=[LONG, "a\0b"])
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"run_id": "a\ud800b"}))
    trace = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    (run / "rank0.json").write_text(json.dumps([trace]))
    for command in (("query", "health"), ("query", "requests"), ("breakdown",)):
        done = cli(*command, run)
        assert (done.exit_code, "Traceback" in done.stderr) == (0, False)
    rows = cli("sql", "--format", "json", run, "SELECT run_id, notes FROM run").json()
    assert rows == [
        {
            "run_id": "a\ufffdb",
            "notes": ["run_id contained half of a surrogate pair, replaced by U+FFFD"],
        }
    ]
    assert cli("sql", "--format", "json", run, "SELECT run_id FROM trace").json() == [
        {"run_id": "a\ufffdb"}
    ]


def test_a_statement_that_is_no_utf_8(cli, sample_trace):
    done = cli("sql", sample_trace, "SELECT '\udcff'")
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr == "error: the statement contains bytes that are not UTF-8\n"
