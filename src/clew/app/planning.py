"""Whether the model must hear that plan mode is on, or over: the mode of the moment and its file."""

from collections.abc import Iterable
from typing import Any

from clew.config.there import is_there
from clew.context.facts import Fact
from clew.context.plan_fact import plan_fact
from clew.permissions.in_session import SessionRules


def planning(
    rules: SessionRules, history: Iterable[dict[str, Any]], how: str | None
) -> Fact | None:
    path = rules.plan_file
    return plan_fact(history, is_on=rules.mode == "plan", path=path, exists=is_there(path), how=how)
