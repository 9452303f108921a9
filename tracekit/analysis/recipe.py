"""What decides how a store is derived from the ingested tables: the SQL files and the rules."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tracekit.analysis import context_walk
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.device_peaks import device_peaks_text
from tracekit.analysis.kernel_rules import builtin_rules_text, load_rules
from tracekit.analysis.range_rules import builtin_range_rules_text, load_range_rules
from tracekit.analysis.role_rules import builtin_role_rules_text, load_role_rules


def queries_digest(rules: Path | None = None) -> str:
    """Return a digest of everything that decides what is derived from the ingested tables.

    Args:
        rules: a rules file of the user's.
    """
    digest = hashlib.sha256()
    catalog = load_catalog()
    for spec in (catalog.macros | catalog.tables | catalog.views).values():
        digest.update(f"{spec.kind} {spec.name}\0{spec.sql}\0".encode())
    digest.update(builtin_rules_text().encode())
    digest.update(builtin_range_rules_text().encode())
    digest.update(builtin_role_rules_text().encode())
    digest.update(Path(context_walk.__file__).read_bytes())
    digest.update(device_peaks_text().encode())
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
