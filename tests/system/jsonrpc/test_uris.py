"""Files as peers name them."""

import pytest

from clew.system.jsonrpc.wire import path_of, uri_of


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b#L3", "/a/b"),
        ("file://host/a%C3%A9?x", "/a\u00e9"),
        ("file:///%FF", "/\udcff"),
        ("file://", ""),
        ("zed:///a", ""),
    ],
)
def test_a_uri_names_a_file_of_this_machine_or_none(uri: str, path: str) -> None:
    assert path_of(uri) == path


@pytest.mark.parametrize("path", ["/a/b c.py", "/\u00e9%#?", "/\udcff"])
def test_a_path_comes_back_as_it_went(path: str) -> None:
    assert path_of(uri_of(path)) == path
