"""Reads a catalog with DuckDB, polars and pandas and compares it with what os.lstat says.

usage: catalog.py CATALOG [ROOT] [--lite] [--targets] [ignored options]

Without ROOT the table must have no rows. Prints "equal: N", or says what differs and exits with 1.
"""

import collections
import glob
import os
import stat
import sys

import duckdb
import pandas
import polars

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
}
NUMBERS = ["device", "mode", "nlink", "uid", "gid", "size", "blocks"]


def device(number):
    """As rows have it: the major number in the upper, the minor in the lower 32 bits."""
    return os.major(number) << 32 | os.minor(number)


def paths(root):
    yield root
    for place, directories, files in os.walk(root):
        for name in directories + files:
            yield os.path.join(place, name)


def lossy(value):
    """As Rust has it: one U+FFFD for each longest prefix of a character, which is what Python does as well."""
    return value.decode("utf-8", "replace")


def as_rows(columns):
    """Columns to rows by the bytes of their path."""
    names = list(columns)
    rows = {}
    for values in zip(*columns.values()):
        row = dict(zip(names, values))
        text, raw = row.pop("path"), row.pop("path_raw")
        path = text.encode() if raw is None else bytes(raw)
        assert path not in rows, f"twice: {path!r}"
        # Bytes are there only where text cannot hold them, and the text is what it can.
        assert raw is None or text == lossy(path) and text.encode() != path, (text, path)
        if "target" in row:
            raw, text = row.pop("target_raw"), row["target"]
            row["target"] = bytes(raw) if raw is not None else None if text is None else text.encode()
        rows[path] = row
    return rows


def read_duckdb(place):
    # A pattern, as people write it. Nanoseconds are asked for as numbers: Python's own times have microseconds.
    relation = duckdb.connect().sql(f"SELECT * FROM '{place}/*.parquet'")
    times = {"atime", "mtime", "ctime", "btime"}
    picked = [f"epoch_ns({name}) AS {name}" if name in times else name for name in relation.columns]
    rows = relation.project(", ".join(picked)).fetchall()
    return {name: [row[index] for row in rows] for index, name in enumerate(relation.columns)}


def read_polars(place):
    frame = polars.read_parquet(f"{place}/*.parquet")
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, polars.Datetime):
            assert column.dtype.time_unit == "ns" and column.dtype.time_zone == "UTC", column.dtype
            column = column.to_physical()
        columns[name] = column.to_list()
    return columns


def read_pandas(place):
    # pandas takes a list of files, and no pattern; _errors.ndjson and _manifest.json lie in the same directory.
    frame = pandas.read_parquet(sorted(glob.glob(glob.escape(place) + "/*.parquet")), dtype_backend="pyarrow")
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if "timestamp" in str(column.dtype):
            assert str(column.dtype).startswith("timestamp[ns, tz=UTC]"), column.dtype
            column = column.astype("int64[pyarrow]")
        columns[name] = [None if value is pandas.NA else value for value in column]
    return columns


def wanted_rows(root, lite, targets):
    rows = {}
    for path in paths(root):
        found = os.lstat(path)
        row = {
            "kind": KINDS[stat.S_IFMT(found.st_mode)],
            "depth": path[len(root):].count(b"/"),
            "inode": found.st_ino,
        }
        if not lite:
            row |= {
                "device": device(found.st_dev), "mode": found.st_mode, "nlink": found.st_nlink, "uid": found.st_uid,
                "gid": found.st_gid, "size": found.st_size, "blocks": found.st_blocks,
                "mtime": found.st_mtime_ns, "ctime": found.st_ctime_ns,
            }
        if targets:
            row["target"] = os.readlink(path) if stat.S_ISLNK(found.st_mode) else None
        rows[path] = row
    return rows


def sums_by_kind(rows):
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for row in rows.values():
        sums[row["kind"]][0] += 1
        sums[row["kind"]][1] += row["size"]
        sums[row["kind"]][2] += row["blocks"]
    return {kind: tuple(values) for kind, values in sums.items()}


def compare(name, columns, wanted):
    rows = as_rows(columns)
    for row in rows.values():
        # Access times change when a link is read; times of birth are not in lstat.
        for time in ["atime", "btime"]:
            value = row.pop(time, None)
            assert value is None or isinstance(value, int), value
    differing = [path for path in rows.keys() | wanted.keys() if rows.get(path) != wanted.get(path)]
    for path in sorted(differing)[:5]:
        print(f"{name}: {path!r}\n  row:   {rows.get(path)}\n  lstat: {wanted.get(path)}")
    if differing:
        sys.exit(f"{name}: {len(differing)} of {len(wanted)} differ")
    print(f"{name} equal: {len(rows)}")


def compare_sums(place, wanted):
    """The question that a user asks first, in SQL."""
    answer = duckdb.connect().sql(
        f"SELECT kind, count(*), sum(size), sum(blocks) FROM '{place}/*.parquet' GROUP BY kind"
    ).fetchall()
    assert {kind: (count, size, blocks) for kind, count, size, blocks in answer} == sums_by_kind(wanted)


def main():
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    place = words[0]
    lite, targets = "--lite" in options, "--targets" in options
    wanted = wanted_rows(os.fsencode(words[1]), lite, targets) if len(words) > 1 else {}
    for name, read in [("duckdb", read_duckdb), ("polars", read_polars), ("pandas", read_pandas)]:
        compare(name, read(place), wanted)
    if wanted and not lite:
        compare_sums(place, wanted)


main()
