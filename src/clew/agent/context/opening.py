"""The facts for a new conversation, sent once, after its first prompt.

They describe the surroundings and include the memory files. They are gathered while the user types
and recorded as attachments whose text never changes.
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
    """Gathers the facts for a new conversation, starting when the object is created.

    `facts` waits for those that are still missing; `aclose` cancels the gathering.
    """

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
        """Start gathering.

        `memories` is the project's memory folder, or None if its index is not to be sent. `nonce`
        marks clew's own tags in conversations that begin here.
        """
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
        """Return the contents of the memory files as a fact, or None without any."""
        if not self._has_memory:
            return None
        return facts.make_memory_fact(
            load_memory(find_sources(self._environ, cwd, self._gate), FileCache()).files
        )

    def _index(self) -> Fact | None:
        """Return the index of memories from earlier sessions, if any."""
        if self._memories is None or not is_file(self._memories / "MEMORY.md"):
            return None
        from clew.agent.context.notebook import MemoryNotebook, index_fact

        return index_fact(MemoryNotebook(self._memories))

    async def facts(
        self, *, model: str, day: str, cwd: Path | None = None, reads_memory: bool = True
    ) -> list[Fact]:
        """Return the facts in the order in which they are sent.

        For the same surroundings, the order and the wording are always the same. `cwd` overrides
        the session's folder for a conversation that runs elsewhere.
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
    from clew.agent.context.structure import Structure  # rarely enabled

    return Structure(partial(git.list_files, launcher, environ))
