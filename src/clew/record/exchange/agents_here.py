"""Folders in which other agents on this machine store their sessions.

This module writes nothing. Each agent has folders, which environment variables may change, and file
patterns. These only determine where to look; the format of a file is recognized by its content
(formats/registry.py).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from clew.system.files import is_file


class AgentPlace(Struct, frozen=True, kw_only=True):
    """An agent: its name, and its folders with file patterns.

    A folder begins with `~`, or with `$NAME|` and the default for that variable. A pattern that
    begins with `!` excludes files.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    patterns: tuple[str, ...]


_EDITORS = ("~/.config/Code/User", "~/.config/Cursor/User", "~/.config/VSCodium/User",
            "~/.vscode-server/data/User", "~/Library/Application Support/Code/User",
            "~/Library/Application Support/Cursor/User")  # fmt: skip
_TASKS = tuple(
    f"{folder}/globalStorage/{extension}/tasks"
    for folder in _EDITORS
    for extension in ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")
)

AGENTS = (
    AgentPlace(
        name="claude", title="Claude Code", folders=("$CLAUDE_CONFIG_DIR|~/.claude",),
        patterns=("projects/*/*.jsonl", "!projects/*/agent-*.jsonl"),
    ),
    AgentPlace(
        name="codex", title="Codex", folders=("$CODEX_HOME|~/.codex",),
        patterns=("sessions/**/rollout-*.json*", "archived_sessions/**/rollout-*.json*"),
    ),
    AgentPlace(
        name="opencode", title="opencode",
        folders=("$XDG_DATA_HOME|~/.local/share",),
        patterns=("opencode/opencode*.db", "opencode/storage/session/*/ses_*.json"),
    ),
    AgentPlace(
        name="gemini", title="Gemini CLI", folders=("~/.gemini/tmp",),
        patterns=("*/chats/session-*.json*",),
    ),
    AgentPlace(
        name="qwen", title="Qwen Code", folders=("~/.qwen",),
        patterns=("projects/*/chats/*.jsonl", "tmp/*/chats/session-*.json*"),
    ),
    AgentPlace(
        name="pi", title="pi", folders=("$PI_CODING_AGENT_DIR|~/.pi/agent",),
        patterns=("sessions/**/*.jsonl",),
    ),
    AgentPlace(
        name="kimi", title="Kimi", folders=("$KIMI_SHARE_DIR|~/.kimi", "~/.kimi-code"),
        patterns=("sessions/*/*/wire.jsonl", "sessions/*/*/agents/main/wire.jsonl"),
    ),
    AgentPlace(
        name="vibe", title="Mistral Vibe", folders=("$VIBE_HOME|~/.vibe",),
        patterns=("logs/session/*/messages.jsonl", "logs/session/session_*.json",
                  "logs/session/unified/*/journal/0000000000000001.jsonl"),
    ),
    AgentPlace(
        name="goose", title="goose",
        folders=("$XDG_DATA_HOME|~/.local/share", "~/.config", "~/Library/Application Support"),
        patterns=("goose/sessions/sessions.db", "goose/sessions/*.jsonl"),
    ),
    AgentPlace(
        name="copilot", title="GitHub Copilot", folders=("~/.copilot",),
        patterns=("session-state/*/events.jsonl", "session-state/*.jsonl",
                  "history-session-state/*.json"),
    ),
    AgentPlace(
        name="cline", title="Cline", folders=(*_TASKS, "~/.cline/data/tasks"),
        patterns=("*/api_conversation_history.json",),
    ),
    AgentPlace(
        name="cursor", title="Cursor",
        folders=("~/.cursor", *(f for f in _EDITORS if "Cursor" in f)),
        patterns=("chats/*/*/store.db", "projects/*/agent-transcripts/**/*.jsonl",
                  "globalStorage/state.vscdb"),
    ),
    AgentPlace(
        name="amp", title="Amp", folders=("$XDG_DATA_HOME|~/.local/share",),
        patterns=("amp/threads/T-*.json",),
    ),
    AgentPlace(
        name="continue", title="Continue", folders=("$CONTINUE_GLOBAL_DIR|~/.continue",),
        patterns=("sessions/*.json", "!sessions/sessions.json"),
    ),
    AgentPlace(
        name="factory", title="Factory droid", folders=("~/.factory",),
        patterns=("sessions/**/*.jsonl",),
    ),
    AgentPlace(
        name="grok", title="Grok CLI", folders=("~/.grok",),
        patterns=("sessions/*/*/chat_history.jsonl",),
    ),
    AgentPlace(
        name="iflow", title="iFlow CLI", folders=("~/.iflow",),
        patterns=("projects/*/session-*.jsonl",),
    ),
    AgentPlace(
        name="openhands", title="OpenHands", folders=("~/.openhands",),
        patterns=("conversations/*/base_state.json",),
    ),
    # These agents store their sessions in the project's folder.
    AgentPlace(name="aider", title="aider", folders=(".",), patterns=(".aider.chat.history.md",)),
    AgentPlace(name="crush", title="Crush", folders=(".",), patterns=(".crush/crush.db",)),
)  # fmt: skip
TITLES = {agent.name: agent.title for agent in AGENTS}


def resolve_place(folder: str, environ: Mapping[str, str], home: Path) -> Path:
    """Return an agent's folder with its variable and the home folder resolved."""
    name, _, usual = folder.rpartition("|")
    moved = environ.get(name.removeprefix("$"), "") if name else ""
    folder = moved or usual
    if folder.startswith("~"):
        return home / folder.removeprefix("~").lstrip("/")
    return Path(folder)


def list_sources(
    environ: Mapping[str, str], home: Path, cwd: Path, own: Path
) -> Iterator[tuple[str, Path]]:
    """Yield the name of each agent with each of its files, except files in clew's `own` folder."""
    for agent in AGENTS:
        for path in _list_files(agent, environ, home, cwd):
            if not path.is_relative_to(own):
                yield agent.name, path


def _list_files(
    agent: AgentPlace, environ: Mapping[str, str], home: Path, cwd: Path
) -> Iterator[Path]:
    """Yield an agent's files, sorted by path in each folder."""
    seen: set[Path] = set()
    for folder in agent.folders:
        root = cwd / resolve_place(folder, environ, home)
        for pattern in agent.patterns:
            paths = root.glob(pattern.removeprefix("!"))
            if pattern.startswith("!"):
                continue
            left_out = {
                path
                for other in agent.patterns
                if other.startswith("!")
                for path in root.glob(other.removeprefix("!"))
            }
            for path in sorted(paths):
                if is_file(path) and path not in seen and path not in left_out:
                    seen.add(path)
                    yield path
