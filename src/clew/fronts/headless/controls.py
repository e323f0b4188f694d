"""The requests by which a host controls a running session, and their answers.

This module owns the table of requests. A request that is unknown or cannot be carried out is
answered with an error that explains why. No request waits for the end of the turn.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.agent.options import LEAST_THINKING
from clew.core import wire
from clew.core.catalog.models import Model
from clew.core.json_object import Json
from clew.core.ledger.breakdown import break_down
from clew.core.ledger.totals import describe_model_usage
from clew.core.messages.errors import ClewError, MisuseError
from clew.core.wire import ControlRequest
from clew.fronts.headless import servers, window
from clew.fronts.headless.framing import list_agents, list_commands
from clew.fronts.headless.result import cost_of
from clew.fronts.headless.session_controls import (
    ControlContext,
    ControlHandler,
    ControlHandlers,
    ControlRefusedError,
)
from clew.parts.background_tasks import describe_row
from clew.providers.base import Off, ThinkingBudget
from clew.version import VERSION

if TYPE_CHECKING:
    from clew.parts.mcp.servers import Servers
    from clew.session.session import Session

# The most bytes of a task's output to send, so that they fit into one frame.
OUTPUT_BYTES = 200_000


def load_standing_controls() -> ControlHandlers:
    from clew.fronts.headless.standing_controls import CONTROLS

    return CONTROLS


def load_file_controls() -> ControlHandlers:
    from clew.fronts.headless.file_controls import CONTROLS

    return CONTROLS


def load_servers() -> ControlHandlers:
    from clew.fronts.headless.servers import CONTROLS

    return CONTROLS


# How long a host's request waits for a server that starts again.
RECONNECT_WAIT_S = 30.0


async def answer_control(context: ControlContext, request: ControlRequest) -> Json:
    """Handle a request; return the frame that answers it."""
    handler = find_handler(request.subtype)
    if handler is None:
        return wire.unsupported(request.request_id, request.subtype)
    try:
        response = await handler(context, request.fields)
    except MisuseError:
        raise
    except ControlRefusedError as error:
        return wire.make_refusal(request.request_id, str(error), code=error.code)
    except (ClewError, OSError) as error:
        return wire.make_refusal(request.request_id, str(error))
    frame = wire.make_success(request.request_id, response)
    if request.subtype == "initialize":
        frame["response"]["pending_permission_requests"] = context.host.open_requests()
    return frame


def find_handler(name: str) -> ControlHandler | None:
    load = ELSEWHERE.get(name)
    return HANDLERS.get(name) if load is None else load()[name]


async def initialize(context: ControlContext, _: Json) -> Json:
    """Answer the handshake, whose options have been applied already."""
    session = context.session
    context.view.tell_commands()
    return {
        "hook_on_failure_supported": True,
        "commands": list_commands(session),
        "agents": list_agents(session),
        "models": describe_models(session),
        "output_style": session.parts.output_styles.named,
        "available_output_styles": [
            style.name for style in session.parts.output_styles.styles.found
        ],
        "account": {
            "apiKeySource": session.model_access.key_source,
            "tokenSource": session.model_access.key_source,
        },
        "pid": os.getpid(),
        "claude_code_version": wire.COMPATIBLE_VERSION,
        "clew_version": VERSION,
        "current_permission_mode": session.mode,
        "session_state": context.view.state,
        "session_id": session.session_id,
        "capabilities": list(wire.CAPABILITIES),
    }


def describe_models(session: "Session") -> list[Json]:
    """Return the models for a host's menu. The first is the default one, which hosts preselect."""
    speaking = session.model_access.speaking
    default = speaking.catalog.entry(choose_default(session))
    first = describe_choice(default) | {
        "value": "default",
        "displayName": f"Default ({default.name})",
    }
    return [first, *map(describe_choice, speaking.models)]


def choose_default(session: "Session") -> str:
    """Return the model from the settings, or the default if none is set or it is not allowed."""
    speaking = session.model_access.speaking
    name = session.rules.standing.settings.get("model")
    if isinstance(name, str) and name and not speaking.describe_refusal(name):
        return name
    return speaking.default_model


def describe_choice(model: Model) -> Json:
    levels = list(model.effort or ())
    return {
        "value": model.id,
        "resolvedModel": model.id,
        "displayName": model.name,
        "description": described(model.context_window),
        "supportsEffort": bool(levels),
        **({"supportedEffortLevels": levels} if levels else {}),
        "supportsAdaptiveThinking": "adaptive" in (model.thinking or ()),
    }


async def interrupt(context: ControlContext, _: Json) -> Json:
    """Answer an interruption, which was carried out when the request arrived."""
    return {"still_queued": context.lines.uuids}


async def cancel_async_message(context: ControlContext, fields: Json) -> Json:
    return {"cancelled": context.lines.withdraw(text(fields, "message_uuid"))}


async def end_session(context: ControlContext, _: Json) -> None:
    context.lines.end()


async def stop_task(context: ControlContext, fields: Json) -> Json:
    """Stop a task. An unknown task is not an error."""
    tasks = context.session.parts.tasks
    task = tasks.get(text(fields, "task_id"))
    if task is not None:
        await tasks.stop(task)
    return {}


async def background_tasks(context: ControlContext, fields: Json) -> Json:
    """Move running work to the background: one call's work, or everything that the turn waits for.

    Return all background tasks.
    """
    session, call = context.session, fields.get("tool_use_id")
    left = session.parts.tasks.leave(call if isinstance(call, str) else None)
    running = session.parts.tasks.running
    return {
        "backgrounded": bool(left) or call is None,
        "tasks": [describe_row(task) for task in running if task.is_background],
    }


async def keep_task(context: ControlContext, fields: Json) -> Json:
    """Keep a background command running after clew exits.

    The host decides on behalf of the user.
    """
    tasks = context.session.parts.tasks
    task = tasks.get(text(fields, "task_id"))
    if task is None:
        raise ControlRefusedError(f"task not found: {fields['task_id']}")
    await tasks.keep(task)
    return describe_row(task)


async def get_task_output(context: ControlContext, fields: Json) -> Json:
    task = context.session.parts.tasks.get(text(fields, "task_id"))
    if task is None:
        raise ControlRefusedError(f"task not found: {fields['task_id']}")
    task.output.look()
    first, last = task.output.since(0, OUTPUT_BYTES)
    output = (first + last).decode("utf-8", "replace")
    return {**describe_row(task), "status": task.status, "output": output}


async def set_permission_mode(context: ControlContext, fields: Json) -> Json:
    before = context.session.mode
    entered = context.session.parts.planning.change_mode(text(fields, "mode"))
    if entered == before:
        context.view.tell_mode(entered)
    return {"mode": entered}


async def set_model(context: ControlContext, fields: Json) -> Json:
    name = fields.get("model")
    if name is not None and (not isinstance(name, str) or not name):
        raise ControlRefusedError("set_model: model: expected a non-empty string or null")
    chosen = name if name and name != "default" else choose_default(context.session)
    return {"model": (await context.session.model_access.switching.to(chosen)).id}


async def set_max_thinking_tokens(context: ControlContext, fields: Json) -> Json:
    tokens = fields.get("max_thinking_tokens")
    if tokens is not None and (not isinstance(tokens, int) or tokens < 0):
        raise ControlRefusedError(
            "set_max_thinking_tokens: expected a non-negative integer or null"
        )
    if tokens is None:
        context.session.model_access.speaking.think(None)
    else:
        thinking = ThinkingBudget(tokens=max(tokens, LEAST_THINKING)) if tokens else Off()
        context.session.model_access.speaking.think(thinking)
    return {"max_thinking_tokens": tokens}


async def rename_session(context: ControlContext, fields: Json) -> Json:
    title = text(fields, "title")
    context.session.story.recorder.title(title)
    return {"title": title}


async def rewind_files(context: ControlContext, fields: Json) -> Json:
    """Restore files to their state before a message, without changing the conversation.

    With `dry_run`, only report what would change.
    """
    from clew.session.rewinding import Rewinding, find_conflicts, plan_file_changes

    rewinding = Rewinding(context.session)
    if not rewinding.keeps_files:
        raise ControlRefusedError("File rewinding is not enabled.")
    is_dry = fields.get("dry_run") is True
    planned = await rewinding.planned(text(fields, "user_message_id"), "files")
    against = find_conflicts(planned)
    if against and not is_dry:
        raise ControlRefusedError("; ".join(against))
    changes = plan_file_changes(planned, rewinding.blobs)
    if not is_dry:
        await rewinding.carry_out(planned)
    return {
        "canRewind": not against,
        **({"error": "; ".join(against)} if against else {}),
        "filesChanged": [change.path for change in changes],
        "insertions": sum(change.insertions for change in changes),
        "deletions": sum(change.deletions for change in changes),
        **({} if is_dry else {"skippedLinks": 0}),
    }


async def get_context_usage(context: ControlContext, _: Json) -> Json:
    session = context.session
    template = session.model_access.requests.template
    system = template.system if isinstance(template.system, list) else []
    history = session.story.sent
    parts = break_down(history, system=system, tools=template.tools or ())
    return window.describe_usage(
        parts, session.model, auto_at=session.parts.compaction.auto_at(session.model.id)
    )


async def mcp_status(context: ControlContext, _: Json) -> Json:
    return {"mcpServers": servers.describe_servers(context.session.parts.mcp)}


async def mcp_reconnect(context: ControlContext, fields: Json) -> None:
    mcp_servers, name = _servers(context, fields), text(fields, "serverName")
    await mcp_servers.reconnect(name)
    await _expect_connected(mcp_servers, name)


async def mcp_toggle(context: ControlContext, fields: Json) -> None:
    mcp_servers, name = _servers(context, fields), text(fields, "serverName")
    enabled = fields.get("enabled") is True
    await mcp_servers.toggle(name, enabled=enabled)
    if enabled:
        await _expect_connected(mcp_servers, name)


async def _expect_connected(mcp_servers: "Servers", name: str) -> None:
    """Wait for a server that is restarting.

    Raise an error with the reason if it did not connect.
    """
    problem = await mcp_servers.connected(name, RECONNECT_WAIT_S)
    if problem:
        raise ControlRefusedError(f"MCP server {name} is not connected: {problem}")


def _servers(context: ControlContext, fields: Json) -> "Servers":
    """Return the session's servers.

    Raise an error if the server that a request names is missing.
    """
    mcp_servers = context.session.parts.mcp.servers
    name = text(fields, "serverName")
    if mcp_servers is None or mcp_servers.get(name) is None:
        raise ControlRefusedError(f"Server not found: {name}")
    return mcp_servers


async def get_session_cost(context: ControlContext, _: Json) -> Json:
    ledger = context.session.ledger()
    warmer = context.session.model_access.cache.warmer
    return {
        "total_cost_usd": cost_of(ledger.total),
        "usage": ledger.total.tokens.as_usage(),
        "modelUsage": describe_model_usage(ledger, context.session.model_access.speaking.catalog),
        "cacheMisses": [miss.as_json() for miss in context.session.model_access.cache.misses],
        **({} if warmer is None else {"cacheWarming": warmer.as_json()}),
    }


async def list_models(context: ControlContext, _: Json) -> Json:
    return {"models": (await initialize(context, {}))["models"]}


async def get_binary_version(_: ControlContext, __: Json) -> Json:
    return {"version": VERSION}


def text(fields: Json, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ControlRefusedError(f"{fields.get('subtype')}: {name}: expected a non-empty string")
    return value


def described(window_tokens: int | None) -> str:
    return f"{window_tokens:,} tokens of context" if window_tokens else "context window unknown"


HANDLERS: ControlHandlers = {
    "initialize": initialize,
    "interrupt": interrupt,
    "cancel_async_message": cancel_async_message,
    "end_session": end_session,
    "stop_task": stop_task,
    "background_tasks": background_tasks,
    "keep_task": keep_task,
    "get_task_output": get_task_output,
    "set_permission_mode": set_permission_mode,
    "set_model": set_model,
    "set_max_thinking_tokens": set_max_thinking_tokens,
    "rename_session": rename_session,
    "rewind_files": rewind_files,
    "get_context_usage": get_context_usage,
    "mcp_status": mcp_status,
    "mcp_reconnect": mcp_reconnect,
    "mcp_toggle": mcp_toggle,
    "get_session_cost": get_session_cost,
    "list_models": list_models,
    "get_binary_version": get_binary_version,
}

# Rare requests, and functions that load the modules which answer them.
ELSEWHERE: dict[str, Callable[[], ControlHandlers]] = {
    "apply_flag_settings": load_standing_controls,
    "update_settings": load_standing_controls,
    "get_settings": load_standing_controls,
    "generate_session_title": load_standing_controls,
    "set_has_subscribers": load_standing_controls,
    "reload_skills": load_file_controls,
    "reload_plugins": load_file_controls,
    "reload_output_styles": load_file_controls,
    "list_permission_rules": load_standing_controls,
    "get_hooks_listing": load_standing_controls,
    "register_repo_root": load_standing_controls,
    "get_usage": load_standing_controls,
    "get_session_state": load_standing_controls,
    "mcp_set_servers": load_servers,
    "mcp_call": load_servers,
    "mcp_read_resource": load_servers,
    "mcp_message": load_servers,
    "file_suggestions": load_file_controls,
    "read_file": load_file_controls,
    "seed_read_state": load_file_controls,
    "get_workspace_diff": load_file_controls,
    "set_color": load_standing_controls,
}
