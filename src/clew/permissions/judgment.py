"""Permission checks for other programs: judge a tool call under given rules. Does no I/O."""

import posixpath
from collections.abc import Iterable
from typing import Any, get_args

from msgspec import Struct

from clew.permissions.decide import decide
from clew.permissions.decision import Verdict, describe_reason, verdict
from clew.permissions.request import Context, Mode, PermissionRequest, Resolve, ResolvedPath
from clew.permissions.rules import (
    Anchors,
    Behavior,
    PermissionRule,
    RejectedRule,
    RuleSet,
    RuleSource,
    parse_rule,
)


class Judgment(Struct, frozen=True, kw_only=True):
    """A decision about a tool call.

    Fields:
        verdict: `allow`, `ask` or `deny`; in auto mode also `review`: a model decides.
        reason: The deciding part of the call, and the rule or guard that decided.
    """

    verdict: Verdict
    reason: str


def judge_call(
    tool: str,
    input: dict[str, Any],  # noqa: A002
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    cwd: str,
    home: str,
    mode: Mode = "default",
) -> Judgment:
    """Judge a tool call under rules, as a session would.

    Nothing is read from disk: paths are used as written, and symbolic links are not followed. Raise
    `ValueError` for an invalid rule or mode.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode: expected one of {', '.join(get_args(Mode))}, got {mode!r}")
    lists: tuple[tuple[Behavior, Iterable[str]], ...] = (
        ("allow", allow), ("ask", ask), ("deny", deny),
    )  # fmt: skip
    for name, rules in lists:
        if isinstance(rules, str):  # Its letters would be rules that match nothing.
            raise TypeError(f"{name}: expected a list of rules, got {rules!r}")
    parsed = [_parse(text, behavior, cwd) for behavior, texts in lists for text in texts]
    decision = decide(
        PermissionRequest(tool=tool, input=input),
        RuleSet(parsed, anchors=Anchors(cwd=cwd, home=home)),
        Context(cwd=cwd, home=home, mode=mode),
        _resolve_as_written(cwd, home),
    )
    return Judgment(verdict=verdict(decision), reason=describe_reason(decision))


def _parse(text: str, behavior: Behavior, root: str) -> PermissionRule:
    rule = parse_rule(text, behavior, root=root, source=RuleSource(scope="session"))
    if isinstance(rule, RejectedRule):
        raise ValueError(f"{behavior}: {rule.text}: {rule.what}")
    return rule


def _resolve_as_written(cwd: str, home: str) -> Resolve:
    def resolve(text: str) -> ResolvedPath:
        expanded = home + text[1:] if text == "~" or text.startswith("~/") else text
        path = posixpath.normpath(posixpath.join(cwd, expanded))
        return ResolvedPath(names=(path,), known=not set("*?[\0") & set(text))

    return resolve
