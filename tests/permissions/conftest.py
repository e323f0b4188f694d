from pathlib import Path

import pytest

from tests.permissions.world import World


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(Path(tmp_path_factory.mktemp("world")))
