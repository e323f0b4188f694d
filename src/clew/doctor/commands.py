"""`clew doctor`: looks at everything a session needs, and says what is wrong and what to do."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

import msgspec

from clew.config.mask import mask
from clew.config.words import Group
from clew.doctor.finding import faults_in, told
from clew.doctor.look import looked
from clew.permissions.session_rules import given, stand


def main(argv: list[str]) -> int:
    """0 where nothing is wrong, 1 where something is."""
    options = arguments().parse_args(argv)
    standing = stand(os.environ, Path.cwd(), given=given(options.settings))
    found = asyncio.run(looked(standing, offline=options.offline))
    if options.json:
        said = {"ok": not faults_in(found), "findings": msgspec.to_builtins(found)}
        sys.stdout.write(mask(msgspec.json.encode(said).decode()) + "\n")
    else:
        sys.stdout.write(mask(told(found)) + "\n")
    return 1 if faults_in(found) else 0


def arguments() -> argparse.ArgumentParser:
    parser = Group(
        prog="clew doctor", description="What is wrong with this setup, and what to do about it."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--offline", action="store_true", help="do not ask the service")
    parser.add_argument("--settings", help="further settings: a file, or JSON")
    return parser
