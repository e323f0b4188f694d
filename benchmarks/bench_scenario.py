"""The cost of a scripted answer for the server, which must be small compared with the measured
programs.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.measure import Figure, cpu_s
from clew.testing.http import encode_chunk
from clew.testing.scenario import from_value
from clew.testing.scenario_steps import ScenarioHost, steps

TEXT = "0123456789abcdef" * 262_144  # 4 MB
REQUEST = {"model": "m", "messages": [], "stream": True}


def figures() -> Iterator[Figure]:
    for name, send in (("an event a chunk", {}), ("chunks of 64 KB", {"chunk_bytes": 65536})):
        answer: dict[str, Any] = {"text": TEXT, "delta_chars": 40, "times": "always", "send": send}
        host = ScenarioHost(from_value({"scenario": 1, "answers": [answer]}))
        events = len(host.respond("answers", REQUEST)[1].parts)  # the deltas are created once

        def framed(host: ScenarioHost = host) -> None:
            wire = bytearray()
            for step in steps(host.respond("answers", REQUEST)[1]):
                if isinstance(step, bytes):
                    wire += encode_chunk(step)

        yield Figure(
            name=f"4 MB of text in deltas of 40, {name}, CPU per event",
            value=cpu_s(framed) * 1e6 / events,
            unit="µs",
            at_most=1.0,
        )
