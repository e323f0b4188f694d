"""The conversation with what its compactions closed: each entry once, where it was said. Reads, never writes."""

from pathlib import Path
from typing import Any

from clew.messages.encoding import decode
from clew.transcript.links import ROOT, Node
from clew.transcript.load import load
from clew.transcript.siblings import with_siblings
from clew.transcript.source import Source


def from_the_beginning(path: Path) -> list[dict[str, Any]]:
    """Each compaction and its summary stand where they were made; what was kept stands before them."""
    loaded = load(path, whole=True)
    chain, links = loaded.chain, loaded.chain.links
    if chain.boundary == ROOT:
        return loaded.messages
    with path.open("rb", buffering=0) as file:
        source = Source(file.fileno())

        def body(node: Node) -> dict[str, Any]:
            data: dict[str, Any] = node.data or decode(source.part(node.at, node.size))
            return data if node.keys.uuid is not None else data | {"uuid": node.uuid}

        stretches, boundary, seen = [chain.live], chain.boundary, set[int]()
        while boundary != ROOT and boundary not in seen:
            seen.add(boundary)
            closed = links.past_boundary(boundary)
            way, boundary = chain.ways.walk(closed, links.nodes[boundary].at - 1, [])
            stretches.append(with_siblings(links, way, body))
        told = dict.fromkeys(i for stretch in reversed(stretches) for i in stretch)
        return [body(links.nodes[i]) for i in told]
