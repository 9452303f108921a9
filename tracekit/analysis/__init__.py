"""From a SQL file to a result: header, catalog, run, result. No formatting happens here."""
