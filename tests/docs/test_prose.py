"""Numbers that the manual states in its sentences, computed again."""

import pytest
from every_trace import REPO

pytestmark = pytest.mark.nightly("pages other than the README")

DOCS = REPO / "docs"


def text_of(page):
    """Return a page in one line, so that a sentence is found however it is broken."""
    return " ".join((DOCS / page).read_text("utf-8").split())


def test_the_finding_of_the_tutorial(opened):
    trace = opened(REPO / "sample_traces" / "h200_finetune_L")
    text = text_of("tutorial.md")
    (idle,) = trace.query("run_idle").to_dicts()
    steps = [row for row in trace.query("steps").to_dicts() if row["step"] is not None]
    (count,) = {row["kernel_count"] for row in steps}
    plain_ms, work_ms = idle["unprofiled_step_ns"] / 1e6, idle["work_ns"] / 1e6
    assert f"{work_ms:.0f} of {plain_ms:.0f} ms" in text
    assert f"took {idle['recorded_step_ns'] / 1e6:.0f} ms" in text
    assert f"{idle['idle_pct']:.0f} % of an" in text
    assert f"not {idle['recorded_idle_pct']:.0f} %" in text
    assert f"launches {count:,} kernels and copies" in text
    assert f"has {1e3 * plain_ms / count:.0f} µs" in text
    predicted = trace.predict("graph on").as_result().to_dicts()[0]
    left = [
        round(100 * predicted[n] / predicted["before_step_ns"])
        for n in ("predicted_step_ns", "low_step_ns", "high_step_ns")
    ]
    assert f"{left[0]} % of its present time ({left[1]} to {left[2]} %)" in text


def test_the_reasons_are_those_of_the_rules(opened):
    trace = opened(DOCS / "samples" / "made_up_step.json")
    reasons = trace.sql("FROM attribution_reasons()").rows
    text = (DOCS / "explanation" / "attribution.md").read_text("utf-8")
    table = text[text.index("| reason | basis |") :].split("\n\n")[0].splitlines()[2:]
    assert table == [f"| `{reason}` | {meaning} |" for reason, meaning in reasons]
