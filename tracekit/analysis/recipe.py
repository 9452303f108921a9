"""What decides how a store is derived from the ingested tables: the SQL files and the rules."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

from tracekit.analysis.catalog import load_catalog

_STEPS = (
    *("context_walk.py", "module_paths.py", "stretch_alignment.py"),
    *("walk_markers.py", "walked_modules.py"),
    *("kernel_rules.py", "name_rules.py", "range_rules.py"),
)
"""The files of the steps that are no SQL. They are read, not imported: a store that is there needs
none of them."""


def queries_digest(rules: Path | None = None) -> str:
    """Return a digest of everything that decides what is derived from the ingested tables.

    Args:
        rules: a rules file of the user's.
    """
    digest = hashlib.sha256()
    catalog = load_catalog()
    derived = {"macro": catalog.macros, "table": catalog.tables, "view": catalog.views}
    for kind, specs in derived.items():
        for name, sql in specs.texts():
            digest.update(f"{kind} {name}\0{sql}\0".encode())
    rules_folder = files("tracekit.queries") / "rules"
    builtin = (file for file in rules_folder.iterdir() if file.name.endswith(".toml"))
    for file in sorted(builtin, key=lambda file: file.name):
        digest.update(file.read_bytes())
    for name in _STEPS:
        digest.update(Path(__file__).with_name(name).read_bytes())
    if rules is not None and rules.is_file():
        digest.update(rules.read_bytes())
    return digest.hexdigest()


def check_rules(rules: Path) -> None:
    """Make sure that a rules file of the user's is valid.

    Raises:
        UsageError: it cannot be read, or a rule in it is not valid.
    """
    from tracekit.analysis.kernel_rules import load_rules
    from tracekit.analysis.range_rules import load_range_rules
    from tracekit.analysis.role_rules import load_role_rules

    load_rules(rules)
    load_range_rules(rules)
    load_role_rules(rules)
