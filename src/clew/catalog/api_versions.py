"""The versions of the Messages API that clew speaks, and what the later one no longer takes.

Read in the official SDK (`anthropic` 2.12.0: `_constants.ANTHROPIC_API_VERSION` is the later one) and on
the vendor's pages "Versions" and "Migrating to API version 2026-10-21": `temperature`, `top_p` and
`top_k`, even at their defaults; `document` blocks directly in assistant messages; text with `citations`
in user messages, directly or in a `search_result`. Each is answered with HTTP 400.
"""

import re

EARLIER = "2023-06-01"
LATER = "2026-10-21"
# What a request says that names none: the official SDK's own default.
USUAL = LATER

# Members of a body that the later version knows no more.
SAMPLING = ("temperature", "top_p", "top_k")

_FORM = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_version(text: str) -> bool:
    """Whether a text has the form of a version."""
    return _FORM.fullmatch(text) is not None


def is_later(version: str) -> bool:
    """Whether the rules of 2026-10-21 hold; those of versions after it are not known here."""
    return version >= LATER


def other_version(version: str) -> str:
    """Return the version to speak with an endpoint that refuses this one."""
    return EARLIER if is_later(version) else LATER
