"""A clew that writes to the first file which variables of its table it reads."""

import sys
from pathlib import Path

from clew.cli import main
from clew.system.config import environment

NOTE = Path(sys.argv.pop(1))
plain = environment.Environment.text


def text(self: environment.Environment, field: str) -> str | None:
    with NOTE.open("a", encoding="utf-8") as note:
        note.write(f"{field}\n")
    return plain(self, field)


environment.Environment.text = text
sys.exit(main())
