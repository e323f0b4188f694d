"""Memory of the gates: the syntax trees are cached for one test module, not for the run."""

from collections.abc import Iterator

import pytest

from tests.gates import house


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Parse each file once for all tests of a module, and free the trees then: they take 200 MB."""
    yield
    house.parse.cache_clear()
