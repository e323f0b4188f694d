"""The handshake, which applies the fields of a host's `initialize` request to the options.

This module handles all fields except hooks. Most invalid values are ignored; only a value that
would make every response useless is rejected. This module does no I/O.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from clew.agent.hooks.events import BY_NAME
from clew.agent.hooks.handlers import CallbackHook, Hook, UnreachableHookError
from clew.agent.options import DEFAULTS, HostMember, Options, notes
from clew.core.json_object import Json
from clew.core.messages.encoding import decode, encode
from clew.core.messages.errors import UserError
from clew.core.wire import MAX_FRAME_BYTES, encode_frame
from clew.fronts.headless.permission import HostError, HostRequests
from clew.record.transcript.paths import get_sidecar

# Hooks of the host: registered in the handshake, called over the channel.


Call: TypeAlias = Callable[[Json, str | None], Awaitable[Json]]

HOST = "host"


def hooks_of(value: Any, host: HostRequests) -> list[Hook]:
    """Return the hooks that a handshake registers."""
    events = value.items() if isinstance(value, dict) else ()
    return [
        hook
        for name, matchers in events
        if name in BY_NAME and isinstance(matchers, list)
        for matcher in matchers
        if isinstance(matcher, dict)
        for hook in of_matcher(name, matcher, host)
    ]


def of_matcher(event: str, matcher: Json, host: HostRequests) -> Iterator[Hook]:
    pattern, timeout = matcher.get("matcher"), matcher.get("timeout")
    ids = matcher.get("hookCallbackIds")
    for callback_id in ids if isinstance(ids, list) else ():
        if isinstance(callback_id, str):
            yield Hook(
                event=BY_NAME[event],
                matcher=pattern if isinstance(pattern, str) else "",
                source=HOST,
                handler=CallbackHook(
                    call=make_tool_caller(host, callback_id),
                    timeout=timeout if isinstance(timeout, int | float) else None,
                    blocks_on_failure=matcher.get("onFailure") == "block",
                ),
            )


def make_tool_caller(host: HostRequests, callback_id: str) -> Call:
    async def call(hook_input: Json, tool_use_id: str | None) -> Json:
        fields = {"callback_id": callback_id, "input": hook_input, "tool_use_id": tool_use_id}
        try:
            return await host.ask("hook_callback", fields)
        except HostError as error:
            if host.is_gone:
                raise UnreachableHookError(str(error)) from error
            raise

    return call


# Transcript entries for the host, so that the host can keep its own copy.


# The most bytes of entries in a frame; a longer entry gets its own frame.
BATCH_BYTES = 256 * 1024
# The most bytes of one entry. The rest of the line contains its path and the frame.
MAX_ENTRY_BYTES = MAX_FRAME_BYTES - 32 * 1024


class Mirror:
    """Sends transcript entries to the host, so that it has a complete copy.

    The host's copy of a subagent's transcript starts with metadata that clew keeps in a separate
    file.
    """

    def __init__(self, post: Callable[[Json], None], warn: Callable[[str], None]) -> None:
        self._post = post
        self._warn = warn
        self._begun: set[Path] = set()

    def __call__(self, path: Path, entries: Sequence[Json]) -> None:
        all_entries = [*self._metadata(path, entries), *entries]
        for batch in batches(all_entries):
            frame: Json = {"type": "transcript_mirror", "filePath": str(path), "entries": batch}
            if len(batch) == 1 and (size := len(encode(batch[0]))) > MAX_ENTRY_BYTES:
                frame |= {"entries": [fitting(batch[0])], "shortened": [batch[0].get("uuid")]}
                self._warn(
                    f"transcript entry of {size} bytes exceeds the protocol's line limit; the host "
                    "receives a shortened copy, and the transcript keeps the complete entry"
                )
            self._post(frame)

    def _metadata(self, path: Path, entries: Sequence[Json]) -> list[Json]:
        if path in self._begun or not path.name.startswith("agent-"):
            return []
        self._begun.add(path)
        if entries[0].get("type") == "agent_metadata":
            return []
        try:
            metadata = decode(get_sidecar(path).read_bytes())
        except (OSError, ValueError):
            return []
        return [{"type": "agent_metadata", **metadata}] if isinstance(metadata, dict) else []


def batches(entries: Sequence[Json]) -> Iterator[list[Json]]:
    """Yield the entries in order, in batches that fit into one frame each."""
    batch: list[Json] = []
    size = 0
    for entry in entries:
        length = len(encode(entry))
        if batch and size + length > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch


def fitting(entry: Json) -> Json:
    """Return an entry, shortened to fit into one line of the protocol."""
    short: Json = decode(encode_frame(entry, MAX_ENTRY_BYTES))
    return short


def agents_of(fields: Json) -> Json:
    """Return the subagents that a handshake defines."""
    agents = fields.get("agents")
    return agents if isinstance(agents, dict) else {}


def skills_of(fields: Json) -> list[str] | None:
    """Return the names of the skills that a handshake offers the model, or None for all."""
    names = fields.get("skills")
    if not isinstance(names, list):
        return None
    return [name for name in names if isinstance(name, str)]


def apply_handshake(options: Options, fields: Json) -> Options:
    """Return the options with the values from the handshake.

    The table of options names most fields; servers and plugins have their own formats.
    """
    overrides: dict[str, Any] = {}
    for field in options.__struct_fields__:
        for member in notes(field, HostMember):
            now = getattr(options, field)
            stands = member.yields and (now or (field == "name" and options.resume))
            if not stands and member.name in fields:
                overrides |= taken(field, member, now, fields[member.name])
    servers = servers_in(fields)
    if servers:
        mcp_config = msgspec.json.encode({"mcpServers": servers}).decode()
        overrides["mcp_config"] = (*options.mcp_config, mcp_config)
    folders, quiet = plugins_in(fields)
    return replace(
        options,
        plugin_folders=(*options.plugin_folders, *folders),
        plugins_without_servers=(*options.plugins_without_servers, *quiet),
        **overrides,
    )


def taken(field: str, member: HostMember, now: Any, value: Any) -> dict[str, Any]:
    """Return the change that a field's value makes to an option; empty if it has no effect.

    Raise `UserError` if the value is invalid.
    """
    if isinstance(now, bool):
        leaves = value is not DEFAULTS[field] and isinstance(value, bool)
        return {field: value} if leaves else {}
    try:
        read = member.read(value)
    except ValueError as error:
        raise UserError(f"initialize: {member.name}: {error}") from None
    return {} if read is None else {field: read}


def servers_in(fields: Json) -> Json:
    """Return the MCP servers of a handshake, including those that the host itself runs."""
    server_entries, names = fields.get("mcpServers"), fields.get("sdkMcpServers")
    servers = dict(server_entries) if isinstance(server_entries, dict) else {}
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str):
            servers.setdefault(name, {"type": "sdk", "name": name})
    return servers


def plugins_in(fields: Json) -> tuple[list[str], list[str]]:
    """Return the plugin folders of a handshake, and those whose MCP servers are not to be used."""
    value = fields.get("plugins")
    items = [item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict)]
    plugins = [item for item in items if isinstance(item.get("path"), str)]
    quiet = [plugin["path"] for plugin in plugins if plugin.get("skipMcpDiscovery") is True]
    return [plugin["path"] for plugin in plugins], quiet
