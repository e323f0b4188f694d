"""Count the commits and pull requests that a finished tool call created.

Commands are recognized by the text of the command line. A failed command is not counted.
"""

from typing import TYPE_CHECKING, Any

from clew.core.ledger.state import Shipped
from clew.core.regex import lazy_pattern

if TYPE_CHECKING:
    from clew.agent.calls import BoundCall
    from clew.permissions.shell import Simple

# Git's messages when it creates no commit, although the command list succeeds.
NOTHING = ("nothing to commit", "nothing added to commit", "no changes added to commit")
NO_COMMIT = frozenset({"--amend", "--dry-run", "--help", "-h"})
# The commands that create a pull request, and the ends of the names of such MCP tools.
REQUESTS = {"gh": ("pr", "create"), "glab": ("mr", "create"), "hub": ("pull-request",)}
# The URL of a pull request on GitHub, GitLab, Bitbucket and similar servers.
ADDRESS = lazy_pattern(
    r"https?://[\w.:-]+/([\w./-]+?)/(?:-/)?(?:pulls?|merge_requests|pull-requests)/(\d{1,9})\b"
)
REQUEST_TOOLS = ("__create_pull_request", "__create_merge_request")


def count_shipped(call: "BoundCall", content: Any) -> Shipped | None:
    """Return what a successful call created, or None if it created no commit or pull request."""
    if call.name.endswith(REQUEST_TOOLS):
        return Shipped(pull_requests=1)
    line = call.line
    if line is None or not any(word in line.text for word in ("git", *REQUESTS)):
        return None
    commands = [part.command for part in line.parts.parts]
    output = content if isinstance(content, str) else ""
    without = sum(output.count(words) for words in NOTHING)
    commits = max(0, sum(map(_commits, commands)) - without)
    requests = sum(map(_requests, commands))
    return Shipped(commits=commits, pull_requests=requests) if commits or requests else None


def find_pull_request(content: Any) -> dict[str, Any] | None:
    """Return the URL, number and repository of the last pull request in a result, if any."""
    blocks = content if isinstance(content, list) else [{"text": content}]
    output = "\n".join(str(block.get("text")) for block in blocks if isinstance(block, dict))
    matches = [*ADDRESS.finditer(output)]
    if not matches:
        return None
    last = matches[-1]
    return {"prUrl": last[0], "prNumber": int(last[2]), "prRepository": last[1]}


def _commits(command: "Simple") -> bool:
    from clew.permissions.git import split_git

    if command.name.rpartition("/")[2] != "git":
        return False
    _, name, rest = split_git(command)
    return name == "commit" and NO_COMMIT.isdisjoint(word.text for word in rest)


def _requests(command: "Simple") -> bool:
    words = REQUESTS.get(command.name.rpartition("/")[2])
    arguments = tuple(word.text for word in command.words[1:])
    return (
        words is not None and arguments[: len(words)] == words and NO_COMMIT.isdisjoint(arguments)
    )
