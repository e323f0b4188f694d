"""Shared command-line helpers for this package: ports, URLs and error messages."""

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from clew.testing.scenario import Scenario, parse

# Read a scenario from disk. No other code of the format accesses files.


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a JSON or YAML file.

    Raise ScenarioError if it is invalid, or OSError.
    """
    return parse(Path(path).read_bytes(), str(path))


def describe_error(error: Exception) -> str:
    """Format an error: `where: what` for an operating system error, otherwise its text."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= 65535):
        raise argparse.ArgumentTypeError("must be a number from 0 (any free port) to 65535")
    return int(text)


def base_url(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError("must be a URL such as https://api.anthropic.com")
    return text
