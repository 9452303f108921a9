"""The syntax of rules and rules files."""

import pytest

from tracekit.checking.rules import has_rules, load_rules, parse_rule
from tracekit.errors import UsageError


@pytest.mark.parametrize(
    ("text", "subject", "operator", "bound", "is_relative"),
    [
        ("step_time <= +3%", "step_time", "<=", 3.0, True),
        ("step_time<=-2.5 %", "step_time", "<=", -2.5, True),
        ("exposed_comm_pct <= 10", "exposed_comm_pct", "<=", 10.0, False),
        ("timeline.idle_pct < 20 %", "timeline.idle_pct", "<", 20.0, False),
        ("mfu >= 0.4", "mfu", ">=", 0.4, False),
        ("p99(ttft) <= 300 ms", "p99(ttft)", "<=", 300e6, False),
        ("peak_memory <= 70 GB", "peak_memory", "<=", 70e9, False),
        ('module("*.self_attn").wall_ns <= +5%', 'module("*.self_attn").wall_ns', "<=", 5.0, True),
        ("count(kernel LIKE '%a%') == 0", "count(kernel LIKE '%a%')", "=", 0.0, False),
        ("count(dur_ns > 5) <= 7", "count(dur_ns > 5)", "<=", 7.0, False),
    ],
)
def test_a_rule(text, subject, operator, bound, is_relative):
    rule = parse_rule(text)
    found = (rule.subject, rule.operator, rule.bound, rule.is_relative)
    assert found == (subject, operator, bound, is_relative)


def test_a_statement_is_a_rule():
    rule = parse_rule("SELECT * FROM rejected WHERE 1 <= 2;")
    assert (rule.operator, rule.subject) == (None, "SELECT * FROM rejected WHERE 1 <= 2")


@pytest.mark.parametrize("text", ["", "step_time", "step_time <= much", "step_time <= 3 parsecs"])
def test_invalid_rules(text):
    with pytest.raises(UsageError):
        parse_rule(text)


def test_files_of_rules(tmp_path):
    named = tmp_path / "rules.toml"
    named.write_text('against = "main"\n[rules]\nslow = "step_time <= +3%"\n')
    rules, settings = load_rules(named)
    assert ([rule.title for rule in rules], settings.against) == (["slow"], "main")
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.tracekit.check]\nrules = ["mfu >= 0.4", "step_time <= 1 s"]\n')
    assert has_rules(project)
    assert [rule.title for rule in load_rules(project)[0]] == ["mfu >= 0.4", "step_time <= 1 s"]


@pytest.mark.parametrize(
    "content",
    [
        "rules = 3",
        "rules = ['a < 1e400 s']",
        "",
        "rules = [1]",
        "rules = [",
        "rules = []\nagains = 'x'",
    ],
)
def test_a_file_without_rules_or_with_unknown_members_is_refused(tmp_path, content):
    path = tmp_path / "rules.toml"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"rules\.toml"):
        load_rules(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_rules(tmp_path / "none.toml")
    assert not has_rules(tmp_path / "pyproject.toml")
