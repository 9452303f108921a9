"""What decides how a store is derived from the ingested tables: the SQL files and the rules."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tracekit.analysis import (
    context_walk,
    device_peaks,
    device_rules,
    kernel_rules,
    range_rules,
    role_rules,
)
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.kernel_rules import load_rules
from tracekit.analysis.range_rules import load_range_rules
from tracekit.analysis.role_rules import load_role_rules
from tracekit.analysis.rule_loader import builtin_text

_RULES = (
    *(kernel_rules.FORM.file_name, range_rules.FORM.file_name, role_rules.FORM.file_name),
    *(device_rules.FILE_NAME, device_peaks.FILE_NAME),
)


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
    for name in _RULES:
        digest.update(builtin_text(name).encode())
    digest.update(Path(context_walk.__file__).read_bytes())
    if rules is not None and rules.is_file():
        digest.update(rules.read_bytes())
    return digest.hexdigest()


def check_rules(rules: Path) -> None:
    """Make sure that a rules file of the user's is valid.

    Raises:
        UsageError: it cannot be read, or a rule in it is not valid.
    """
    load_rules(rules)
    load_range_rules(rules)
    load_role_rules(rules)
