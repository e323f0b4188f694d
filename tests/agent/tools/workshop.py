"""A session's tools in a separate folder, for tests."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.agent.calls import BoundCall, bind, run_tool
from clew.agent.tools.base import (
    Progress,
    ShellSetup,
    Surroundings,
    Tool,
    ToolContext,
    ToolLimits,
    ToolOutcome,
    ToolSession,
)
from clew.system.process.spawn import Launcher


def call_of(tool: Tool[Any], given: Any) -> BoundCall:
    return bind(tool, {"type": "tool_use", "id": "toolu_1", "name": tool.name, "input": given})


class Workshop:
    """Runs tools by name and raw input, as the executor does."""

    def __init__(self, folder: Path, limits: ToolLimits | None = None) -> None:
        self.folder = folder
        self.progress: list[Progress] = []
        self.on_progress: Callable[[Progress], object] = lambda _: None
        self.surroundings = Surroundings()
        self._runner = asyncio.Runner()
        self.session = ToolSession(
            cwd=str(folder),
            spill_folder=folder.parent / "tool-results",
            shell=ShellSetup(
                launcher=Launcher(),
                environment={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(folder)},
                project=str(folder),
            ),
            limits=limits or ToolLimits(),
        )

    def context(self, tool_use_id: str = "toolu_1") -> ToolContext:
        async def emit(progress: Progress) -> None:
            self.progress.append(progress)
            self.on_progress(progress)

        return ToolContext(
            session=self.session,
            emit=emit,
            tool_use_id=tool_use_id,
            message_uuid="message-1",
            surroundings=lambda: self.surroundings,
        )

    def use(self, tool: Tool[Any], **given: Any) -> ToolOutcome:
        return self._runner.run(run_tool(call_of(tool, given), self.context()))

    def use_later(self, work: Callable[[], Any]) -> Any:
        return self._runner.run(work())

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def close(self) -> None:
        self._runner.run(self.session.shell.launcher.aclose())
        self._runner.close()


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    folder = tmp_path / "project"
    folder.mkdir()
    shop = Workshop(folder)
    yield shop
    shop.close()
