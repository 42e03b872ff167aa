"""Compares rows on standard input with what os.lstat says of every entry below a root.

usage: rows.py ndjson|csv|text ROOT [--lite] [--targets]

Reads with Python's own json and csv modules. Prints "equal: N" or the first differences, and exits with 1 on them.
"""

import csv
import datetime
import io
import json
import os
import stat
import sys

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
}
NUMBERS = ["device", "mode", "nlink", "uid", "gid", "size", "blocks", "mtime", "ctime"]


def device(number):
    """As rows have it: the major number in the upper, the minor in the lower 32 bits."""
    return os.major(number) << 32 | os.minor(number)


def paths(root):
    """Every path at and below the root, as bytes."""
    yield root
    for place, directories, files in os.walk(root):
        for name in directories + files:
            yield os.path.join(place, name)


def expected_row(path, root, lite, targets):
    found = os.lstat(path)
    row = {
        "kind": KINDS[stat.S_IFMT(found.st_mode)],
        "depth": path[len(root):].count(b"/"),
        "inode": found.st_ino,
    }
    if not lite:
        row |= {
            "device": device(found.st_dev),
            "mode": found.st_mode,
            "nlink": found.st_nlink,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "size": found.st_size,
            "blocks": found.st_blocks,
            "mtime": found.st_mtime_ns,
            "ctime": found.st_ctime_ns,
        }
    if targets and stat.S_ISLNK(found.st_mode):
        row["target"] = os.readlink(path)
    return row


def text_with_bytes(row, name):
    """The bytes of a field that may have its digits beside it."""
    text, raw = row.get(name), row.get(name + "_raw")
    if text is None:
        return None
    if raw is None:
        return text.encode()
    value = bytes.fromhex(raw)
    assert value.decode("utf-8", "replace") is not None
    try:
        value.decode()
    except UnicodeDecodeError:
        return value
    raise AssertionError(f"{name}_raw although {value!r} is UTF-8")


def read_ndjson(data):
    for line in data.split(b"\n")[:-1]:
        yield json.loads(line)


def read_csv(data):
    reader = csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True)
    for row in reader:
        row = {name: value for name, value in row.items() if value != ""}
        for name in ["depth", "inode", "atime", "btime"] + NUMBERS:
            if name in row:
                row[name] = int(row[name])
        yield row


def rows_of(data, form):
    rows = {}
    for row in {"ndjson": read_ndjson, "csv": read_csv}[form](data):
        path = text_with_bytes(row, "path")
        assert path not in rows, f"twice: {path!r}"
        picked = {name: row[name] for name in ["kind", "depth", "inode"] + NUMBERS if name in row}
        target = text_with_bytes(row, "target")
        if target is not None:
            picked["target"] = target
        if "mtime" in row:
            assert isinstance(row["atime"], int) and row.get("btime", 0) is not False
        rows[path] = picked
    return rows


def unescape(text):
    """Undoes the escaping of names."""
    out, rest = bytearray(), text
    while rest:
        if rest[0] != "\\":
            out += rest[0].encode()
            rest = rest[1:]
        elif rest[1] == "x":
            out.append(int(rest[2:4], 16))
            rest = rest[4:]
        else:
            out += {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\"}[rest[1]]
            rest = rest[2:]
    return bytes(out)


def rfc3339(nanoseconds):
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{moment.isoformat(timespec='seconds')}.{rest:09}Z"


def compare_text(data, root, lite, targets):
    """Each line of the table against a line made here."""
    text = data.decode()
    assert all(character == "\n" or character == "\t" or character.isprintable() for character in text)
    found = {}
    for line in text.split("\n")[:-1]:
        *columns, name = line.split("\t")
        # A link's name may itself hold an arrow; the tree of the test has none that does.
        name, _, target = name.partition(" -> ")
        found[unescape(name)] = (columns, unescape(target))
    wanted = {}
    for path in paths(root):
        seen = os.lstat(path)
        mode = stat.filemode(seen.st_mode)
        columns = [mode[0]] if lite else [
            mode, str(seen.st_nlink), str(seen.st_uid), str(seen.st_gid), str(seen.st_size),
            str(seen.st_blocks * 512), rfc3339(seen.st_mtime_ns),
        ]
        target = os.readlink(path) if targets and mode[0] == "l" else b""
        wanted[path] = (columns, target)
    return found, wanted


def main():
    form, root = sys.argv[1], os.fsencode(sys.argv[2])
    lite, targets = "--lite" in sys.argv, "--targets" in sys.argv
    data = sys.stdin.buffer.read()
    if form == "text":
        found, wanted = compare_text(data, root, lite, targets)
    else:
        found = rows_of(data, form)
        wanted = {path: expected_row(path, root, lite, targets) for path in paths(root)}
    differing = [path for path in found.keys() | wanted.keys() if found.get(path) != wanted.get(path)]
    for path in sorted(differing)[:5]:
        print(f"{path!r}\n  row:   {found.get(path)}\n  lstat: {wanted.get(path)}")
    if differing:
        sys.exit(f"{len(differing)} of {len(wanted)} differ")
    print(f"equal: {len(wanted)}")


main()
