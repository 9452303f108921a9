"""Runs analyses on rows that a test provides instead of other analyses."""

import duckdb

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import reads, start_session
from tracekit.analysis.relations import dependencies, is_relation
from tracekit.analysis.result import Column, Result
from tracekit.analysis.run import run_analysis
from tracekit.database.connections import SESSION, session_of
from tracekit.sql_text import select_rows


def rows_of(name, *rows):
    """A result with the given rows; missing columns are NULL."""
    spec = load_catalog().analysis(name)
    assert all(set(row) <= set(spec.column_names) for row in rows)
    columns = tuple(Column(column.name, column.type) for column in spec.columns)
    return Result(name, columns, [tuple(map(row.get, spec.column_names)) for row in rows])


def analysis_of(name, *given, **params):
    """Run an analysis on provided rows of its inputs; other inputs are empty."""
    spec = load_catalog().analysis(name)
    results = {result.name: result for result in given}
    with duckdb.connect() as connection:
        start_session(connection, is_complete=True)
        session = session_of(connection)
        for required in reads(name):
            other = required.removesuffix("()")
            if other not in load_catalog().analyses:
                continue
            result = results.get(other) or rows_of(other)
            rows = select_rows({c.name: c.type for c in result.columns}, result.rows)
            is_table = required == other and is_relation(other)
            place = f"{SESSION}.main.{other}{'' if is_table else '_given'}"
            connection.execute(f"CREATE TABLE {place} AS {rows}")
            if not is_table:
                declared = load_catalog().analysis(other).params
                takes = ", ".join(f"p_{one.name} := NULL" for one in declared)
                connection.execute(
                    f"CREATE MACRO {SESSION}.main.{other}({takes}) AS TABLE FROM {place}"
                )
            session.row_counts[required] = None
        for table in dependencies(reads(name)) & load_catalog().tables.keys():
            connection.execute(load_catalog().tables[table].empty_table())
        return run_analysis(connection, spec, params)
