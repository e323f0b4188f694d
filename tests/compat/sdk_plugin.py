"""A pytest plugin that points the Agent SDK at clew and clew at a model on this machine.

Its own end-to-end tests then run unchanged: `pytest -c /dev/null -p tests.compat.sdk_plugin FOLDER`.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from clew.testing.server import serving
from tests.compat.rule_model import answer


@pytest.fixture(scope="session", autouse=True)
def clew_is_the_backend() -> Iterator[None]:
    home = tempfile.mkdtemp(prefix="clew-sdk-")
    work = Path(home, "work")
    work.mkdir()
    with serving(answer, strict=True) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(SubprocessCLITransport, "_find_cli", lambda _: executable())
        patch.chdir(work)
        for name in [n for n in os.environ if n.startswith(("CLAUDE", "ANTHROPIC", "CLEW"))]:
            patch.delenv(name)
        patch.setenv("HOME", home)
        patch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0000")
        patch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield
    shutil.rmtree(home)


def executable() -> str:
    return str(Path(sys.executable).with_name("clew"))
