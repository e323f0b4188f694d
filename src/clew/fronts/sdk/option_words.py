"""Python's names for the options that messages of a session call by their flags."""

import re
from functools import cache

from clew.agent.options import Flag, Options, Sdk, notes

# Flags without a field of the same meaning in `ClewOptions`, and settings without a file.
OTHERS = {"--mcp-config": "mcp_servers", "(cli)": "settings"}
# A command to run in a terminal keeps its flags.
PARTS = re.compile(r"\bclew [^;,)`\n]*|\(cli\)|(?<![\w-])--[A-Za-z][\w-]*")


@cache
def name_flags() -> dict[str, str]:
    """Return the names of options in Python by the spellings of their flags."""
    return OTHERS | {
        spelling.split("[")[0].split(" ")[0]: sdk.name or field
        for field in Options.__struct_fields__
        for sdk in notes(field, Sdk)
        for flag in notes(field, Flag)
        for spelling in flag.spelling.split(", ")
        if spelling.startswith("--")
    }


def say_in_python(words: str) -> str:
    """Return a message with the names that `ClewOptions` has for the options in it."""
    return PARTS.sub(lambda match: name_flags().get(match[0], match[0]), words)
