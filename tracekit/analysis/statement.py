"""The statement of an analysis: its SQL with values, and whether it returns what it declares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tracekit.analysis.header import SQL_TOKEN
from tracekit.analysis.params import ParamValue
from tracekit.analysis.result import Column
from tracekit.analysis.spec import Spec
from tracekit.sql_text import literal


def with_values(spec: Spec, values: Mapping[str, ParamValue]) -> str:
    """Return the SQL with every `$name` replaced by its value, cast to its declared type.

    Comments, texts and quoted names are stepped over as wholes, so only a parameter is replaced.
    """
    types = {param.name: param.type for param in spec.params}

    def replacement(match: re.Match[str]) -> str:
        name = match["param"]
        if name is None:
            return match.group()
        return f"CAST({literal(values[name])} AS {types[name]})"

    return SQL_TOKEN.sub(replacement, spec.sql) if types else spec.sql


def declared_otherwise(spec: Spec, columns: Sequence[Column]) -> str | None:
    """Return how the columns of a result differ from those of the header, or None."""
    declared = [(column.name, column.type) for column in spec.columns]
    returned = [(column.name, column.type) for column in columns]
    if declared == returned:
        return None
    missing = [
        f"{name} {type_name}" for name, type_name in declared if (name, type_name) not in returned
    ]
    extra = [
        f"{name} {type_name}" for name, type_name in returned if (name, type_name) not in declared
    ]
    if not missing and not extra:
        return "the same columns in another order"
    return (
        f"declared but not returned: {', '.join(missing) or 'none'}; "
        f"returned but not declared: {', '.join(extra) or 'none'}"
    )
