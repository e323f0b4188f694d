"""What the environment asks of every request and of clew's patience, in both spellings.

Owns the names of these variables. A value that cannot be read is named in `problems` and leaves what
was there: nothing is silently taken for something else.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from clew.providers.base import Budget, CacheTtl, Off, Request, Thinking
from clew.providers.endpoint import is_on
from clew.providers.retry import Policy


class Preferences(Struct, frozen=True, kw_only=True):
    """What was asked for; `None` where nothing was."""

    model: str | None = None
    max_tokens: int | None = None
    thinking: Thinking | None = None
    cache: CacheTtl | None = "5m"
    policy: Policy = Policy()
    problems: tuple[str, ...] = ()


def preferences_from_environment(environment: Mapping[str, str]) -> Preferences:
    problems: list[str] = []

    def value(*names: str) -> tuple[str, str]:
        """The first of these variables that is set, and what it says."""
        for name in names:
            if text := environment.get(name, "").strip():
                return name, text
        return names[0], ""

    def number(*names: str) -> int | None:
        name, text = value(*names)
        if not text:
            return None
        if text.isascii() and text.isdigit() and len(text) <= 9:
            return int(text)
        problems.append(f"{name}: {text!r} is not a number of up to nine digits")
        return None

    def switch(*names: str) -> bool:
        return is_on(value(*names)[1])

    retries = number("CLEW_MAX_RETRIES", "CLAUDE_CODE_MAX_RETRIES")
    budget = number("CLEW_MAX_THINKING_TOKENS", "MAX_THINKING_TOKENS")
    policy = Policy(unattended=switch("CLEW_UNATTENDED", "CLAUDE_CODE_UNATTENDED_RETRY"))
    cache: CacheTtl | None = "5m"
    if switch("CLEW_CACHE_1H", "ENABLE_PROMPT_CACHING_1H"):
        cache = "1h"
    if switch("CLEW_DISABLE_CACHE", "DISABLE_PROMPT_CACHING"):
        cache = None
    return Preferences(
        model=value("CLEW_MODEL", "ANTHROPIC_MODEL", "CLAUDE_MODEL")[1] or None,
        max_tokens=number("CLEW_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS") or None,
        thinking=None if budget is None else Budget(tokens=budget) if budget else Off(),
        cache=cache,
        # A retry is an attempt after the first.
        policy=policy if retries is None else replace(policy, max_attempts=retries + 1),
        problems=tuple(problems),
    )


def preferred(request: Request, preferences: Preferences) -> Request:
    """The request with what was asked for wherever it says nothing itself."""
    return replace(
        request,
        max_tokens=request.max_tokens or preferences.max_tokens,
        thinking=request.thinking or preferences.thinking,
        cache=preferences.cache if request.cache == "5m" else request.cache,
    )
