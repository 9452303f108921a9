"""Small SQLite databases in the form of profilers."""

import sqlite3
from contextlib import closing


def database(path, tables):
    """Write a database of tables; the columns are the keys of the rows."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(column for row in rows for column in row))
            quoted = ", ".join(f'"{column}"' for column in columns)
            connection.execute(f'CREATE TABLE "{table}" ({quoted})')
            places = ", ".join("?" * len(columns))
            connection.executemany(
                f'INSERT INTO "{table}" VALUES ({places})',
                [[row.get(column) for column in columns] for row in rows],
            )
        connection.commit()
    return path
