"""The catalog of SQL files: its lists, and the digest of the files that fill a store."""

import json
import os
import re
import shutil

import duckdb
import pytest

from tracekit.analysis import catalog, library, relations
from tracekit.analysis.catalog import PACKAGE, QUERIES, load_catalog
from tracekit.errors import QueryError
from tracekit.ingest.load import fill_threads, load_trace


def write(root, folder, name, kind):
    scope = "-- Scope: trace\n" if kind == "analysis" else ""
    path = root / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f"-- What is {name}?\n--\n-- Kind: {kind}\n{scope}"
        "-- Columns:\n--   a  INTEGER  x\nSELECT 1 AS a\n",
        encoding="utf-8",
    )


def test_files_are_listed_in_order(tmp_path):
    write(tmp_path, "timeline", "timeline.sql", "analysis")
    write(tmp_path, "kernels", "kernels.sql", "analysis")
    write(tmp_path, "kernels", "kernel_class.sql", "table")
    write(tmp_path, "timeline", "steps.sql", "view")
    write(tmp_path, "intervals", "interval_union.sql", "function")
    write(tmp_path, "kernels", "_shared.sql", "analysis")
    write(tmp_path, "kernels", ".#kernels.sql", "analysis")
    write(tmp_path, "__pycache__", "other.sql", "analysis")
    (tmp_path / "kernels" / "README.md").write_text("no SQL")
    catalog = load_catalog(tmp_path)
    assert list(catalog.analyses) == ["kernels", "timeline"]
    assert list(catalog.tables) == ["kernel_class"]
    assert list(catalog.views) == ["steps"]
    assert list(catalog.functions) == ["interval_union"]
    assert catalog.analysis("kernels").question == "What is kernels.sql?"


def test_the_hint_for_an_unknown_name_lists_similar_ones(tmp_path):
    write(tmp_path, "analyses", "kernels.sql", "analysis")
    write(tmp_path, "analyses", "kernel_classes.sql", "analysis")
    for name, hinted in (("kernls", ("kernels", "kernel_classes")), ("zzz", ("--list",))):
        with pytest.raises(QueryError, match=name) as caught:
            load_catalog(tmp_path).analysis(name)
        assert all(word in str(caught.value.hint) for word in hinted)


def test_two_files_of_one_name_are_refused(tmp_path):
    write(tmp_path, "events", "kernels.sql", "analysis")
    write(tmp_path, "kernels", "kernels.sql", "view")
    with pytest.raises(QueryError, match=r"kernels.kernels\.sql: .*events.kernels\.sql"):
        load_catalog(tmp_path)


def tables_in(node, hidden=frozenset()):
    """The tables that a statement reads, by the syntax tree of DuckDB's parser."""
    found = set()
    if isinstance(node, list):
        for child in node:
            found |= tables_in(child, hidden)
    elif isinstance(node, dict):
        for entry in (node.get("cte_map") or {}).get("map", ()):
            found |= tables_in(entry["value"], hidden)
            hidden |= {entry["key"]}
        if node.get("type") == "BASE_TABLE" and node["table_name"] not in hidden:
            found.add(node["table_name"])
        for key, child in node.items():
            if key != "cte_map":
                found |= tables_in(child, hidden)
    return found


def test_every_table_that_a_file_reads_is_known():
    """Two relations are created at a time, so another one may not exist yet."""
    catalog = load_catalog()
    made = {*catalog.tables, *catalog.views, *filter(relations.is_relation, catalog.analyses)}
    with duckdb.connect() as connection:
        for specs in (catalog.tables, catalog.views, catalog.analyses):
            for name, text in specs.texts():
                [(tree,)] = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
                assert made & tables_in(json.loads(tree)) - {name} <= {*library.reads(name)}, name


def test_a_family_is_listed_with_its_first_member(tmp_path):
    for name in ("copies", "copy_steps", "copy_totals", "other"):
        write(tmp_path, "copies", f"{name}.sql", "analysis")
    for name in ("copy_steps", "copy_totals"):
        file = tmp_path / "copies" / f"{name}.sql"
        file.write_text(
            file.read_text().replace("-- Kind:", f"-- Family: copies per {name[5:]}\n-- Kind:")
        )
    listed = load_catalog(tmp_path).analyses.listed()
    assert [(title.name, title.per) for title in listed] == [
        ("copies", ("steps", "totals")),
        ("other", ()),
    ]


def test_every_analysis_is_listed():
    analyses = load_catalog().analyses
    listed = analyses.listed()
    assert len([title for title in listed if title.subject != "advice"]) <= 80
    members = [analyses.member(title.name, per) for title in listed for per in title.per]
    assert sorted([*members, *(title.name for title in listed)]) == list(analyses)


def test_every_macro_that_a_file_calls_is_known():
    catalog = load_catalog()
    for specs in (catalog.tables, catalog.views, catalog.analyses, catalog.functions):
        for name, text in specs.texts():
            words = {*re.findall(r"\b(\w+)\(", re.sub(r"--.*", "", text))}
            assert words & {*catalog.functions} - {name} <= {*library.reads(name)}, name


def test_no_filtered_count_is_a_window_function():
    """DuckDB needs quadratic time for it; count(if(…, 1, NULL)) needs linear time."""
    for file in (*PACKAGE.rglob("*.py"), *QUERIES.rglob("*.sql")):
        text = file.read_text("utf-8")
        assert not re.search(r"\bcount\([^)]*\) FILTER \([^)]*\)\s+OVER", text), file


def _others(folder, names):
    return [name for name in names if not name.endswith((".py", ".so"))]


@pytest.mark.parametrize(
    "file",
    [
        "ingest/nsys_trace.py", "_native.so", "native.py", "analysis/sweeps.py",
        "analysis/rules.py", "engine/unit.py", "event_description.py", "schema.py",
    ],
)  # fmt: skip
def test_a_changed_byte_of_the_code_changes_the_key(file, tmp_path):
    for folder in catalog._MAKING:
        shutil.copytree(
            catalog.PACKAGE / folder, tmp_path / folder, dirs_exist_ok=True, ignore=_others
        )
    before = catalog._digest_of_package(tmp_path)
    assert catalog._digest_of_package.__wrapped__(tmp_path) == before
    changed = tmp_path / file
    status = changed.stat() if changed.is_file() else None
    changed.write_bytes((changed.read_bytes() if status else b"") + b" ")
    if status:
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert catalog._digest_of_package.__wrapped__(tmp_path) != before


def test_all_code_that_fills_a_store_is_part_of_the_key():
    steps = {step.__module__ for step, _ in relations._IN_PYTHON.values()}
    readers = {reader.__module__ for reader in (fill_threads, load_trace)}
    folders = {module.split(".")[1] for module in steps | readers}
    assert folders <= set(catalog._MAKING)


def test_the_version_and_the_rules_are_part_of_the_key(tmp_path, monkeypatch):
    rules = tmp_path / "rules.toml"
    rules.write_text("# none")
    assert catalog.make_digest(rules) != catalog.make_digest()
    # A store of the cache may have rows of analyses.
    assert catalog.cache_digest() != catalog.make_digest()
    digest_of_package = catalog._digest_of_package.__wrapped__
    before = digest_of_package(catalog.PACKAGE)
    monkeypatch.setattr(catalog, "__version__", "0.0.0")
    assert digest_of_package(catalog.PACKAGE) != before
