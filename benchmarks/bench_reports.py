"""The cost of `clew cost`: linear in the bytes on disk, however many lines repeat a response."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.measure import Figure, cpu_s
from clew.core.catalog.added import load_models
from clew.record.library.costs import gather

AT = "2026-01-02T03:04:05.678Z"
BLOCKS = 3  # lines that repeat the usage of each response
OUTPUT = "x" * 4000


def figures() -> Iterator[Figure]:
    catalog, _ = load_models({})
    with tempfile.TemporaryDirectory() as folder:
        small, large = (_session(Path(folder), answers) for answers in (2_000, 20_000))
        quick = cpu_s(lambda: gather([small], catalog), runs=3)
        slow = cpu_s(lambda: gather([large], catalog), runs=3)
        size_mb = large.stat().st_size / 1e6
        yield Figure(
            name=f"clew cost, {size_mb:.0f} MB, 20,000 responses, CPU", value=slow, unit="s"
        )
        yield Figure(
            name="ten times the responses / once", value=slow / quick, unit="x", at_most=12
        )


def _session(base: Path, answers: int) -> Path:
    usage = {"input_tokens": 5, "output_tokens": 50, "cache_read_input_tokens": 90_000}
    path = base / f"{answers}.jsonl"
    with path.open("wb") as file:
        for number in range(answers):
            block = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
            message = {
                "id": f"m{number}",
                "model": "claude-sonnet-4-5",
                "usage": usage,
                "content": [block],
            }
            answer = {"type": "assistant", "requestId": f"r{number}", "timestamp": AT}
            line = msgspec.json.encode(answer | {"message": message}) + b"\n"
            result = {"type": "user", "timestamp": AT, "message": {"content": OUTPUT}}
            file.write(line * BLOCKS + msgspec.json.encode(result) + b"\n")
    return path
