"""No file, however broken, breaks an import: it comes in, or is refused with a reason."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clew.core.messages.errors import SessionError
from clew.record.exchange.bring import bring_all
from tests.record.exchange import test_chats_and_streams, test_formats, test_other_stores
from tests.record.exchange.test_formats import DATABASES

SOURCES = [
    case[1]
    for cases in (test_formats.CASES, test_chats_and_streams.CASES, test_other_stores.CASES)
    for case in cases.values()
]
VALUES: list[Any] = [
    None, "", "x", 0, -1, 1.5, True, [], ["x"], [None], [[]], [{}], {}, {"type": "x"}, {"a": None},
    10**30, "2026-01-01T00:00:00+99:00", "\ud800", {"type": {}}, {"role": []},
]  # fmt: skip


def change(value: Any, rng: random.Random) -> Any:
    """Return the value with one place of it replaced or removed."""
    if rng.random() < 0.12:
        return rng.choice(VALUES)
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.07:
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: change(value[key], rng)}
    if isinstance(value, list) and value:
        index = rng.randrange(len(value))
        return [*value[:index], change(value[index], rng), *value[index + 1 :]]
    return rng.choice(VALUES)


def broken(rng: random.Random) -> bytes:
    """Return a file of an agent with lost, wrong or foreign parts."""
    source = rng.choice(SOURCES)
    is_lines = source.document is None
    parts = list(source.lines) if is_lines else [source.document]
    for _ in range(rng.randrange(1, 4)):
        index = rng.randrange(len(parts))
        parts[index] = change(parts[index], rng)
    if is_lines and rng.random() < 0.3:
        other = rng.choice(SOURCES)
        parts.insert(rng.randrange(len(parts) + 1), other.document or other.first)
    data = b"\n".join(json.dumps(part).encode() for part in parts)
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data


def import_all(folder: Path, files: int, seed: int) -> None:
    rng = random.Random(seed)
    path = folder / "x"
    databases = [make(folder).read_bytes() for make in DATABASES.values()]
    for number in range(files):
        if rng.random() < 0.1:
            data = bytearray(rng.choice(databases))
            data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data[: rng.randrange(len(data) + 1)] if number % 2 else data)
        else:
            path.write_bytes(broken(rng))
        try:
            imported, refused = bring_all(
                folder / "home", path, "/tmp", now=lambda: "2026-03-04T05:06:07.890Z",
                has_new_id=True,
            )  # fmt: skip
        except SessionError:
            continue
        assert imported or all(session.reason for session in refused)


def test_a_few_broken_files_come_in_or_are_refused(tmp_path: Path) -> None:
    import_all(tmp_path, 60, 7)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(4))
def test_broken_files_come_in_or_are_refused(tmp_path: Path, seed: int) -> None:
    import_all(tmp_path, 400, seed)
