"""Reads a table of differences with DuckDB, polars and pandas, which must agree, and prints a line for each row.

usage: differences.py TABLE
"""

import sys

import duckdb
import pandas
import polars

COLUMNS = [
    "path", "path_raw", "change", "kind", "field", "name", "name_raw", "source", "source_raw", "target", "target_raw",
    "offset",
]
SHOWN = ["path", "path_raw", "change", "kind", "field", "name", "source", "target", "offset"]


def plain(value):
    if value is None or value is pandas.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, float):
        return int(value)
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else value


def rows(names, tuples):
    assert list(names) == COLUMNS, names
    return sorted((tuple(plain(value) for value in row) for row in tuples), key=str)


def main():
    table = sys.argv[1]
    relation = duckdb.sql(f"SELECT * FROM '{table}'")
    seen = rows(relation.columns, relation.fetchall())
    frame = polars.read_parquet(table)
    assert rows(frame.columns, frame.rows()) == seen, frame
    frame = pandas.read_parquet(table)
    assert rows(frame.columns, frame.itertuples(index=False, name=None)) == seen, frame
    places = [COLUMNS.index(name) for name in SHOWN]
    for row in seen:
        print("|".join(str(row[place]).replace("\n", "\\n") for place in places))


if __name__ == "__main__":
    main()
