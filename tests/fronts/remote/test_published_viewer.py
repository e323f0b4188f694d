"""The published viewer module uses a session of clew, unchanged."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from clew.testing.server import serving
from tests.fronts.headless.test_rules_hold import calls
from tests.fronts.remote.yard import Yard
from tests.serve.test_published import install_modules

SCRIPT = Path(__file__).with_name("viewer.mjs")


@pytest.mark.e2e
async def test_a_published_viewer_prompts_and_answers(tmp_path: Path) -> None:
    modules = await install_modules()
    plan = calls(("Bash", {"command": "touch made"}), ("Bash", {"command": "touch changed"}))
    with serving(plan) as model, Yard(tmp_path, model.url) as yard:
        yard.worker()
        process = await asyncio.create_subprocess_exec(
            "node", str(SCRIPT), yard.url, yard.token, str(modules), yard.session,
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )  # fmt: skip
        try:
            async with asyncio.timeout(60):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        seen = json.loads(output.splitlines()[-1])
        assert seen["asked"] == [["Bash", "touch made"], ["Bash", "touch changed"]]
        assert seen["results"] == ["success"]
        assert seen["kinds"][-1] == "result"
        assert seen["kinds"].count("assistant") == 3
        assert (yard.work / "made").exists()
        # It approved another command than the one that it was asked about.
        assert not (yard.work / "changed").exists()
        assert not (yard.work / "evil").exists()
