"""The Python names of options, for messages of a session, which name options by their flags."""

import re
from functools import cache

from clew.agent.options import Flag, Options, Sdk, notes

# Flags without a field of the same meaning in `ClewOptions`, and settings without a file.
OTHERS = {"--mcp-config": "mcp_servers", "(cli)": "settings"}
# A command to run in a terminal keeps its flags.
PARTS = re.compile(r"\bclew [^;,)`\n]*|\(cli\)|(?<![\w-])--[A-Za-z][\w-]*")


@cache
def name_flags() -> dict[str, str]:
    """Return the Python names of options, keyed by their flags."""
    return OTHERS | {
        spelling.split("[")[0].split(" ")[0]: sdk.name or field
        for field in Options.__struct_fields__
        for sdk in notes(field, Sdk)
        for flag in notes(field, Flag)
        for spelling in flag.spelling.split(", ")
        if spelling.startswith("--")
    }


def say_in_python(words: str) -> str:
    """Return a message with the names of options in `ClewOptions` in place of their flags."""
    return PARTS.sub(lambda match: name_flags().get(match[0], match[0]), words)
