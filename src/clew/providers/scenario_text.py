"""Text to value for scenarios: JSON or YAML, strict about keys said twice, and where a path stands.

Must never know the keys of the format. YAML is imported only for a file that is YAML, or to find
the line of a complaint.
"""

import json
import re
from typing import Any, TypeAlias

from clew.messages.errors import UserError

Json: TypeAlias = dict[str, Any]


class ScenarioError(UserError):
    """A scenario that cannot be read: which file, where in it, and what is wrong."""


def _is_yaml(source: str) -> bool:
    return source.lower().endswith((".yaml", ".yml"))


def value_of(text: str, source: str) -> Any:
    return _yaml(text, source) if _is_yaml(source) else _json(text, source)


def must_be_json(value: Any) -> None:
    """Refuses what no response can carry, whoever made the value."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        what = "half of a surrogate pair is no text; bytes go into body_base64 or insert_base64"
        raise ScenarioError(what) from None
    except (TypeError, ValueError) as error:
        # YAML reads 2026-01-01 as a date, and anchors may tie a knot.
        raise ScenarioError(f"not a value of JSON (quotes help): {error}") from None


def decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{source}:{line}: not UTF-8: {error.reason}") from None


def _json(text: str, source: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> Json:
        seen: Json = {}
        for key, value in pairs:
            if key in seen:
                raise ScenarioError(f"{source}: the key {key!r} stands twice in one object")
            seen[key] = value
        return seen

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"{source}:{error.lineno}: {error.msg}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: nested too deep") from None


def _yaml(text: str, source: str) -> Any:
    import yaml

    try:
        _refuse_twice(yaml.compose(text, yaml.SafeLoader), source)
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{source}:{line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{source}: {error}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: nested too deep") from None


def _refuse_twice(root: Any, source: str) -> None:
    """YAML lets the last of two equal keys win in silence; a scenario does not."""
    nodes, done = [root], set()
    while nodes:
        node = nodes.pop()
        if id(node) in done or not isinstance(getattr(node, "value", None), list):
            continue
        done.add(id(node))
        if node.id == "sequence":
            nodes += node.value
            continue
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        for i, (key, value) in enumerate(node.value):
            if key.value in keys[:i]:
                line = key.start_mark.line + 1
                raise ScenarioError(f"{source}:{line}: the key {key.value!r} stands twice")
            nodes.append(value)


def line_of(text: str, place: str) -> int | None:
    """The line a path such as `answers[2].content[0]` stands on; JSON is read as the YAML it is."""
    import yaml

    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    if node is None:
        return None
    line = None
    for key, index in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", place):
        found = _child(node, key, index)
        if found is None:
            break
        at, node = found
        line = at.start_mark.line + 1
    return line


def _child(node: Any, key: str, index: str) -> tuple[Any, Any] | None:
    """The node that says where a child stands (its key, if it has one), and the child."""
    if index:
        item = node.value[int(index)] if node.id == "sequence" else None
        return None if item is None else (item, item)
    if node.id != "mapping":
        return None
    return next(((k, value) for k, value in node.value if k.value == key), None)
