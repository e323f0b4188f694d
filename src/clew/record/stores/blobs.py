"""Files that a session needs on other machines: the system prompts and tools it started with.

A transcript contains only their hashes. With the files, the next request on another machine begins
with the same bytes as on the first one, so the service finds it in its cache.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.record.stores.base import SessionStore, StoreError, write_file
from clew.system.files import is_there

# The fields of a transcript's entry that contain hashes of files.
NAMED = re.compile(rb'"(?:systemSha256|toolsSha256)":"([0-9a-f]{64})"')
NAMING = b'"prompt-hashes"'


def find_names(data: bytes) -> Iterator[str]:
    """Yield the hashes of files that lines refer to."""
    # Few lines of a large transcript name any, so the others are not split.
    at = data.find(NAMING)
    while at >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield from (name.decode() for name in NAMED.findall(data, begin, end))
        at = data.find(NAMING, end)


class BlobFolder:
    """The local folder. `send` and `fetch` transfer files that the other side lacks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent: set[str] = set()

    async def send(self, store: SessionStore, lines: Iterable[bytes]) -> None:
        """Send the files that lines refer to, so that the store has them before the lines."""
        for name in find_names(b"".join(lines)):
            if name in self._sent:
                continue
            try:
                data = await asyncio.to_thread(self._path(name).read_bytes)
            except OSError:
                # The transcript was created without a writable disk, or on another machine.
                continue
            if hashlib.sha256(data).hexdigest() == name:
                await store.put_blob(name, data)
                self._sent.add(name)

    async def fetch(self, store: SessionStore, transcript: bytes) -> None:
        """Fetch the files that a transcript names."""
        for name in dict.fromkeys(find_names(transcript)):
            if is_there(self._path(name)):
                continue
            data = await store.get_blob(name)
            if data is None:
                continue  # The next request will miss the cache, and clew reports that.
            if hashlib.sha256(data).hexdigest() != name:
                raise StoreError("the hash of a session file does not match its name")
            await asyncio.to_thread(write_file, self._path(name), data)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
