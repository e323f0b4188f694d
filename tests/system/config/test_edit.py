"""One member changes; every other byte of the file stays as its author wrote it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.system.config.json_text import remove_value, set_value
from clew.system.config.layers import find_value
from clew.system.files import replace


@pytest.mark.parametrize(
    ("text", "path", "value", "expected"),
    [
        ('{"a": 1}', ("a",), 2, '{"a": 2}'),
        ('{"a": 1}', ("b",), 2, '{"a": 1, "b": 2}'),
        ("{}", ("a",), 1, '{\n  "a": 1\n}'),
        ("", ("a",), 1, '{\n  "a": 1\n}\n'),
        (
            '{\n\t"a": 1\n}\n',
            ("b", "c"),
            [1],
            '{\n\t"a": 1,\n\t"b": {\n\t\t"c": [\n\t\t\t1\n\t\t]\n\t}\n}\n',
        ),
        ('{"a": [1, 2]}', ("a", 2), 3, '{"a": [1, 2, 3]}'),
        ('{"a": []}', ("a", 0), "x", '{"a": [\n  "x"\n]}'),
        ('{"a": 1}', ("a", "b"), 2, '{"a": {\n  "b": 2\n}}'),
        (
            '{"p": {\n    "a": [\n      "x"\n    ]\n  }\n}',
            ("p", "a", 1),
            "y",
            '{"p": {\n    "a": [\n      "x",\n        "y"\n    ]\n  }\n}',
        ),
        ('{"a": 1}', ("b", 0), 2, '{"a": 1, "b": [\n  2\n]}'),
    ],
)
def test_a_value_is_set_in_place(
    text: str, path: tuple[str | int, ...], value: Any, expected: str
) -> None:
    changed = set_value(text, path, value)
    assert json.loads(changed) == json.loads(expected)
    if "    " not in text:
        assert changed == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
        ('{"a": 1, "b": 2}', ("b",), '{"a": 1}'),
        ('{"a": 1}', ("a",), "{}"),
        ('{"a": [1, 2, 3]}', ("a", 1), '{"a": [1, 3]}'),
        ('{\n  "a": 1,\n  "b": 2\n}', ("a",), '{\n  "b": 2\n}'),
    ],
)
def test_a_value_is_taken_out_with_its_comma(
    text: str, path: tuple[str | int, ...], expected: str
) -> None:
    assert remove_value(text, path) == expected


keys = st.text(alphabet="abc", min_size=1, max_size=2)
values = st.one_of(
    st.integers(), st.text(max_size=4), st.lists(st.integers(), max_size=2), st.just({})
)
objects = st.dictionaries(
    keys, st.one_of(values, st.dictionaries(keys, values, max_size=3)), max_size=4
)


@given(
    data=objects,
    path=st.lists(keys, min_size=1, max_size=3),
    value=values,
    indent=st.sampled_from([None, 2, 4, "\t"]),
)
def test_setting_changes_that_member_alone(
    data: dict[str, Any], path: list[str], value: Any, indent: int | str | None
) -> None:
    text = json.dumps(data, indent=indent)
    changed = set_value(text, tuple(path), value)
    result = json.loads(changed)
    assert find_value(result, tuple(path)) == (True, value)
    for name, kept in data.items():
        if name != path[0]:
            assert result[name] == kept
            assert json.dumps({name: kept}, indent=indent).strip("{}").strip() in changed
    back = json.loads(remove_value(changed, tuple(path)))
    assert find_value(back, tuple(path)) == (False, None)


def test_a_file_is_replaced_whole_and_keeps_its_bits_and_its_link(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("old", "utf-8")
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    replace(link, "new")
    assert link.is_symlink()
    assert real.read_text("utf-8") == "new"
    assert real.stat().st_mode & 0o777 == 0o640
    replace(tmp_path / "deep" / "x", "y", mode=0o600)
    assert (tmp_path / "deep" / "x").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700


def test_a_replace_that_fails_leaves_the_old_text_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old", "utf-8")
    with pytest.raises(UnicodeEncodeError):
        replace(target, "\ud800")
    assert target.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]
