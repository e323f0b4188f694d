"""What the programs of this folder share of their command lines: a port, a service, and an error told."""

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from clew.testing.scenario import Scenario, parse

# Reads a scenario from disk; the only module of the format that touches a file.


def read_scenario(path: str | Path) -> Scenario:
    """The scenario in a file; its ending says JSON or YAML. Raises ScenarioError and OSError."""
    return parse(Path(path).read_bytes(), str(path))


def describe_error(error: Exception) -> str:
    """An error of the system as `where: what`; any other in its own words."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= 65535):
        raise argparse.ArgumentTypeError("a number from 0 (any free one) to 65535")
    return int(text)


def base_url(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError("a URL such as https://api.anthropic.com")
    return text
