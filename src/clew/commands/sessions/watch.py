"""`clew sessions watch`: keep copies of other agents' sessions, and report what is new."""

import argparse
import os
import sys
import time
from pathlib import Path

from clew.commands.sessions.everything import describe_session
from clew.commands.sessions.output import FINE, CannotError, find_cwd, find_home, say, say_json
from clew.core.messages.text import format_count
from clew.record.exchange.agents_here import TITLES
from clew.record.exchange.others import OtherSessions, SourceNews
from clew.system.command_groups import GroupWord, argument, switch

DAY_S = 86_400


def run_watch(options: argparse.Namespace) -> int:
    if not 0 < options.interval <= DAY_S:
        raise CannotError("--interval must be more than 0 and at most 86400 seconds")
    others = OtherSessions(find_home())
    while True:
        for news, _, _ in others.refresh(os.environ, Path.home(), Path(find_cwd()), time.monotonic):
            _tell(news, as_json=options.json)
            sys.stdout.flush()
        if options.once:
            return FINE
        time.sleep(options.interval)


def _tell(news: SourceNews, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "agent": news.agent,
                "file": news.path,
                "sessions": [describe_session(session) for session in news.sessions],
                "refused": news.refused,
            }
        )
        return
    for session in news.sessions:
        words = format_count(session.messages, "message")
        say(f"{TITLES[news.agent]}: {session.session_id}: {words}, {session.title!r}")
    for reason in news.refused:
        say(f"{TITLES[news.agent]}: {reason if news.path in reason else f'{news.path}: {reason}'}")


WORDS = {
    "watch": GroupWord(
        run_watch,
        switch("--once", "Update the copies once, and exit"),
        argument(
            "--interval",
            type=float,
            default=5.0,
            metavar="SECONDS",
            help="Pause between updates (default: 5)",
        ),
    )
}
