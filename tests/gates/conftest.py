"""Memory of the gates: the trees of the source are kept for one module of tests, not for the run."""

from collections.abc import Iterator

import pytest

from tests.gates import house


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Parsed once for all tests of a module, and let go then: they take 200 MB."""
    yield
    house.parse.cache_clear()
