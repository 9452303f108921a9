"""User SQL files for tests, and their trace."""

from traces_by_hand import span

HEAD = "-- Why?\n--\n-- Kind:  analysis\n-- Scope: trace\n-- Columns:\n--   n  BIGINT  a number\n"
OPS = [
    span("cpu_op", name, start, end)
    for name, start, end in (("aten::mm", 0, 3), ("aten::add", 5, 6), ("aten::add", 7, 9))
]
LONGEST = """\
-- Which ops took longest on the CPU?
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit  BIGINT = 10  rows
-- Columns:
--   name    VARCHAR  name of the op
--   dur_ns  BIGINT   time, ns
-- Invariant: dur_ns >= 0
SELECT name, dur_ns FROM op_sums ORDER BY dur_ns DESC, name LIMIT $limit
"""
OP_SUMS = """\
-- How long did the ops of each name take?
--
-- Kind:     view
-- Columns:
--   name    VARCHAR  name of the op
--   dur_ns  BIGINT   time, ns
SELECT name, plain_sum(dur_ns) AS dur_ns FROM op_calls GROUP BY name
"""
PLAIN_SUM = """\
-- What is a sum, as the type that was summed?
--
-- Kind: function
CREATE OR REPLACE MACRO plain_sum(x) AS sum(x)::BIGINT;
-- A comment of the file's own.
"""
LONGEST_ROWS = [("aten::add", 3000), ("aten::mm", 3000)]


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.sql").write_text(text, "utf-8")
    return folder


def write_all(folder):
    return write(folder, longest_ops=LONGEST, op_sums=OP_SUMS, plain_sum=PLAIN_SUM)
