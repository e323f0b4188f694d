"""Programs under test, where no other machine can be reached."""

import os
from pathlib import Path

import pytest

from tests.compat.offline import is_offline
from tests.compat.programs import Program


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the program of each test in its report, and select those that CLEW_COMPAT_ONLY names."""
    only = os.environ.get("CLEW_COMPAT_ONLY", "")
    left_out: list[pytest.Item] = []
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("compat"):
            params = item.callspec.params if hasattr(item, "callspec") else {}
            name = params.get("program") or item.module.PROGRAM
            item.user_properties.append(("program", name))
            if only not in name:
                left_out.append(item)
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def offline(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("compat") and not is_offline():
        pytest.fail("other machines can be reached here; run: make compat ONLY=NAME", pytrace=False)


@pytest.fixture
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return Program(request.param, tmp_path)
