"""What a new conversation is told once, behind its first prompt: where it runs, what the files say.

Gathered while the person still types; recorded as attachments whose words never change afterwards.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clew.agent.context import facts, git
from clew.agent.context.facts import Fact
from clew.agent.context.memory import FileCache, MemoryGate, find_sources, load_memory
from clew.system.files import is_file, is_there
from clew.system.process.spawn import Launcher

if TYPE_CHECKING:
    from clew.agent.context.structure import Structure


class Opening:
    """Begins to look when made; `facts` waits for what is not there yet, `aclose` for nothing."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        folders: Sequence[str],
        gate: MemoryGate,
        nonce: str,
        has_memory: bool = True,
        has_structure: bool = False,
        memories: Path | None = None,
    ) -> None:
        """`memories` is the project's memory folder, where its index is to be told; `nonce` is what
        clew's own tags bear in conversations that begin here."""
        self._cwd = cwd
        self._environ = dict(environ)
        self._folders = folders
        self._gate = gate
        self._nonce = nonce
        self._has_memory = has_memory
        self._structure = structure_by(launcher, environ) if has_structure else None
        self._memories = memories if has_memory else None
        self._is_repository = any(is_there(f / ".git") for f in (cwd, *cwd.parents))
        self._git = (
            asyncio.create_task(git.report(launcher, cwd, environ)) if self._is_repository else None
        )

    async def aclose(self) -> None:
        if self._git is not None:
            self._git.cancel()
            await asyncio.wait([self._git])

    def _memory(self, cwd: Path) -> Fact | None:
        """What the memory files say."""
        if not self._has_memory:
            return None
        return facts.make_memory_fact(
            load_memory(find_sources(self._environ, cwd, self._gate), FileCache()).files
        )

    def _index(self) -> Fact | None:
        """What earlier sessions left, if they left anything."""
        if self._memories is None or not is_file(self._memories / "MEMORY.md"):
            return None
        from clew.agent.context.notebook import MemoryNotebook, index_fact

        return index_fact(MemoryNotebook(self._memories))

    async def facts(
        self, *, model: str, day: str, cwd: Path | None = None, reads_memory: bool = True
    ) -> list[Fact]:
        """The facts, in the order in which they are told; the same for the same surroundings.

        `cwd` is where a conversation works that is not in the session's own folder.
        """
        cwd = cwd or self._cwd
        candidates = [
            self._memory(cwd) if reads_memory else None,
            self._index(),
            facts.make_environment_fact(
                cwd=str(cwd),
                is_repository=self._is_repository,
                platform=sys.platform,
                os_version=os.uname().release,
                model=model,
                folders=self._folders,
                nonce=self._nonce,
            ),
            facts.make_date_fact(day),
        ]
        report = await self._git if self._git is not None else None
        if report is not None:
            candidates.append(facts.make_git_fact(report))
        if self._structure is not None:
            candidates.append(await self._structure.fact(cwd))
        return [fact for fact in candidates if fact is not None]


def structure_by(launcher: Launcher, environ: Mapping[str, str]) -> "Structure":
    from clew.agent.context.structure import Structure  # few people want it

    return Structure(partial(git.list_files, launcher, environ))
