"""Words of the command line that stand for a group of others: `clew config`, `clew plugin marketplace`."""

import argparse
from collections.abc import Sequence
from typing import Any


class Group(argparse.ArgumentParser):
    """Said alone, a group lists its words instead of asking for one; that is still no success."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        if self._subparsers is not None and args is not None and not args:
            self.exit(2, self.format_help())
        return super().parse_known_args(args, namespace)
