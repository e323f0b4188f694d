"""The sessions on this machine that `clew web` shows in addition to those of its server.

If a worker of this server has a session open, the session is shown from the server's events. Any
other session is shown from its transcript, and can be continued unless another process has it open.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from clew.core.json_object import Json
from clew.core.messages.errors import ClewError
from clew.fronts.web.hosting import Workers
from clew.fronts.web.transcripts import find_last_uuid, read_after, read_page
from clew.record.library import copies, listing
from clew.record.library.branches import find_end_before, find_prompt_above, read_tree
from clew.record.library.search import Scope, search
from clew.record.library.words import query_of
from clew.record.transcript import light
from clew.record.transcript.paths import find_session
from clew.record.transcript.running import Running, list_running
from clew.serve.frames import timestamp
from clew.serve.log import RefusedError
from clew.serve.web.shelf import ShelfNews
from clew.system.clock import get_timestamp

MOST_LISTED = 300
MOST_HITS = 50
# Among this many of a session's last events, there is one that its worker also sends.
RECENT, MESSAGES = 20, ("user", "assistant")


class LocalShelf:
    """The transcripts in one settings folder, and the workers that continue them."""

    def __init__(self, home: Path, workers: Workers, read_folders: Callable[[], list[str]]) -> None:
        """Create the shelf. `read_folders` returns the folders in which `clew web` was started."""
        self._home = home
        self._read_folders = read_folders
        self._workers = workers
        self._last: dict[tuple[str, int], str] = {}

    async def list_sessions(self) -> list[Json]:
        return await asyncio.to_thread(self._list)

    def _list(self) -> list[Json]:
        running = {process.session_id: process for process in list_running(self._home)}
        sessions = []
        for outline in listing.list_newest_first(self._home, str(Path.home()), everywhere=True):
            sessions.append(self._show(outline, running.get(outline.session_id)))
            if len(sessions) == MOST_LISTED:
                break
        return sessions

    def _show(self, outline: light.Outline, process: Running | None) -> Json:
        is_ours = process is not None and process.pid in self._workers.pids
        is_elsewhere = process is not None and not is_ours
        why = (
            f"This session is open in a terminal ({process}). Watch it here, and answer there."
            if process
            else ""
        )
        return {
            "id": outline.session_id,
            "session_id": outline.session_id,
            "title": outline.title,
            "config": {"cwd": outline.cwd or ""},
            "last_sequence_num": outline.size_bytes,
            "connection_status": "connected" if is_elsewhere else "resting",
            "worker_status": "running" if process and process.status == "busy" else "idle",
            "external_metadata": {"git_branch": outline.git_branch},
            "created_at": outline.created_at or "",
            "updated_at": timestamp(int(outline.modified_at * 1000)),
            "waiting": 0,
            "asks": "",
            "origin": "file",
            "read_only": is_elsewhere,
            "why": why if is_elsewhere else "",
        }

    async def list_folders(self) -> list[str]:
        """Return the folders in which `clew web` was started, then those that have sessions."""
        sessions = await self.list_sessions()
        folders = [*self._read_folders(), *(session["config"]["cwd"] for session in sessions)]
        return list(dict.fromkeys(filter(None, folders)))

    def has(self, session: str) -> bool:
        return bool(find_session(self._home, session))

    async def show_session(self, session: str) -> Json:
        return await asyncio.to_thread(self._show_one, session)

    def _show_one(self, session: str) -> Json:
        outline = light.read_outline(self._find(session))
        if outline is None:
            raise RefusedError(404, "not_found", f"session {session} has no conversation")
        running = {process.session_id: process for process in list_running(self._home)}
        return self._show(outline, running.get(session))

    def _find(self, session: str) -> Path:
        paths = find_session(self._home, session)
        if not paths:
            raise RefusedError(404, "not_found", f"session not found: {session}")
        return paths[0]

    async def read_page(self, session: str, before: str, limit: int) -> Json:
        page = await asyncio.to_thread(read_page, self._find(session), before, limit)
        return {
            "session": await self.show_session(session),
            "events": page.events,
            "questions": [],
            "first": page.first,
            "last": page.last,
            "more": page.has_more,
        }

    async def read_news(self, session: str, after: int) -> ShelfNews:
        return await asyncio.to_thread(self._read_news, session, after)

    def _read_news(self, session: str, after: int) -> ShelfNews:
        path = self._find(session)
        last = self._last.get((session, after)) or find_last_uuid(path, after)
        events, end, last, has_gone_back = read_after(path, after, last)
        self._last.pop((session, after), None)
        self._last[session, end] = last
        return ShelfNews(events=events, last=end, is_other=has_gone_back)

    async def search(self, words: str) -> list[Json]:
        def find() -> list[Json]:
            result = search(self._home, query_of(words), Scope(agents=False), limit=MOST_HITS)
            return [
                {
                    "session_id": hit.session_id,
                    "sequence_num": hit.at,
                    "title": hit.title,
                    "snippet": hit.snippet,
                    "at": hit.timestamp or "",
                }
                for hit in result.hits
            ]

        return await asyncio.to_thread(find)

    async def read_branches(self, session: str) -> list[Json]:
        """Return the prompts of all branches, each branch after its parent branch."""

        def read() -> list[Json]:
            return [
                {"uuid": p.uuid, "text": p.text[:200], "depth": p.depth, "live": p.live}
                for p in read_tree(self._find(session)).prompts
            ]

        return await asyncio.to_thread(read)

    # -- changes

    async def host(self, session: str) -> None:
        """Continue a session in a worker of this server."""
        details = await self.show_session(session)
        if details["read_only"]:
            raise RefusedError(409, "open_elsewhere", details["why"])
        page = await asyncio.to_thread(read_page, self._find(session), "", RECENT)
        await self._workers.start(["--resume", session], session, details["config"]["cwd"])
        messages = [str(e["event_id"]) for e in page.events if e["payload"]["type"] in MESSAGES]
        if messages:
            await self._workers.wait_for_history(session, messages[-1])

    async def start(self, folder: str) -> str:
        """Start a session in a folder that already has sessions."""
        if folder not in await self.list_folders():
            raise RefusedError(400, "unknown_folder", f"no session has used the folder {folder!r}")
        return await self._workers.start_new(folder)

    async def fork(self, session: str, uuid: str, *, is_before: bool) -> Json:
        """Copy a session up to the end of a prompt's turn.

        With `is_before`, copy it only up to the entry before the prompt.
        """

        def copy() -> Json:
            path = self._find(session)
            prompt = find_prompt_above(path, uuid)
            if prompt is None:
                raise RefusedError(404, "not_found", f"prompt not found: {uuid}")
            end: str | None = prompt.end
            if is_before:
                end = find_end_before(path, prompt.uuid)
                if end is None:
                    raise RefusedError(409, "first_prompt", "can't fork before the first prompt")
            fork = copies.fork(path, end, title="", at=get_timestamp())
            return {"session_id": fork.path.stem, "title": fork.title, "text": prompt.text}

        try:
            return await asyncio.to_thread(copy)
        except ClewError as error:
            if isinstance(error, RefusedError):
                raise
            raise RefusedError(409, "not_forked", str(error)) from None
