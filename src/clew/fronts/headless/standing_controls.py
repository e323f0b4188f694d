"""Control requests by which a host reads and changes settings, rules and hooks of the session."""

from pathlib import Path
from typing import Any, get_args

import msgspec

from clew.agent.hooks.events import EVENTS, Event
from clew.agent.hooks.handlers import Hook, read_layers
from clew.core.json_object import Json
from clew.core.messages.errors import UserError
from clew.fronts.headless.session_controls import ControlContext, ControlHandlers
from clew.parts.titles import DESCRIBED_CHARACTERS, SYSTEM, as_title
from clew.permissions.rules import PermissionRule
from clew.permissions.updates import FoldersUpdate
from clew.providers.base import Effort, Failure
from clew.record.transcript.side_lines import COLORS, NO_COLOR
from clew.session.session import Session
from clew.system.config.layers import Scope, order_layers
from clew.system.config.load import assign
from clew.system.config.mask import mask
from clew.system.config.settings import read_switch
from clew.system.files import is_folder

# The names by which hosts refer to the settings files.
SOURCES: dict[str, str] = {
    "managed": "policySettings",
    "user": "userSettings",
    "project": "projectSettings",
    "local": "localSettings",
    "cli": "flagSettings",
}
# The keys that a host may write into the user's files, and the files.
WRITABLE: dict[str, tuple[Scope, str]] = {
    "localSettings": ("local", "outputStyle"),
    "userSettings": ("user", "effortLevel"),
}


async def apply_flag_settings(context: ControlContext, fields: Json) -> Json:
    """Apply settings that override the settings files.

    Changes of model and effort apply at once.
    """
    session = context.session
    settings = object_of(fields, "settings")
    notes = session.rules.overlay(settings)
    if isinstance(settings.get("model"), str):
        await session.model_access.switching.to(settings["model"])
    if "effortLevel" in settings:
        level = settings["effortLevel"]
        if level is not None and level not in get_args(Effort):
            raise UserError(
                f"effortLevel: invalid value {level!r}; expected one of {', '.join(get_args(Effort))}"
            )
        session.model_access.speaking.effort(level)
    return {"warnings": list(notes)}


async def update_settings(context: ControlContext, fields: Json) -> Json:
    """Write settings to one of the user's files. Only a few keys are allowed."""
    session = context.session
    source, settings = fields.get("source"), object_of(fields, "settings")
    if source not in WRITABLE:
        raise UserError(f"source: invalid value {source!r}; expected one of {', '.join(WRITABLE)}")
    scope, key = WRITABLE[source]
    for name, value in settings.items():
        if name != key or not isinstance(value, str):
            raise UserError(
                f"{name}: a host can write only {key} to {source}, with a string as its value"
            )
    for name, value in settings.items():
        assign(session.rules.standing.places, scope, name, value)
    return {"warnings": list(await session.parts.refresh())}


async def get_settings(context: ControlContext, _: Json) -> Json:
    """Return the settings: merged, and by source from the lowest precedence to the highest."""
    session = context.session
    standing = session.rules.standing
    return {
        "effective": standing.settings,
        "sources": [
            {
                "source": SOURCES.get(layer.scope, "flagSettings"),
                "settings": layer.data,
                **({"path": layer.file} if layer.file else {}),
            }
            for layer in reversed(order_layers(standing.layers))
            if layer.data
        ],
        "applied": {
            "model": session.model.id,
            "effort": session.model_access.speaking.effort_now,
        },
        "errors": list_errors(session),
    }


def list_errors(session: Session) -> list[Json]:
    """Return the errors in the settings files."""
    return [{"message": line, "path": ""} for line in session.rules.standing.complaints]


async def list_permission_rules(context: ControlContext, _: Json) -> Json:
    session = context.session
    standing = session.rules.standing
    return {
        "state": {
            "rules": [ruled(rule) for rule in standing.rules.rules],
            "workspaceDirectories": [
                {"path": path, "source": "session"} for path in standing.context.directories
            ],
            "originalCwd": session.workspace.cwd,
            "managedOnly": read_switch(standing.settings, "allowManagedPermissionRulesOnly"),
            "errors": list_errors(session),
        }
    }


def ruled(rule: PermissionRule) -> Json:
    return {
        "behavior": rule.behavior,
        "rule": rule.text,
        "source": SOURCES.get(rule.source.scope, "session"),
    }


async def get_hooks_listing(context: ControlContext, _: Json) -> Json:
    session = context.session
    listing = read_layers(session.rules.standing.layers)
    many: dict[str, int] = {}
    for hook in listing.hooks:
        many[hook.event.name] = many.get(hook.event.name, 0) + 1
    return {
        "events": [
            {**catalogued(event), "hookCount": many[event.name]}
            for event in EVENTS
            if event.name in many
        ],
        "hooks": [hooked(hook) for hook in listing.hooks],
        "eventCatalog": [catalogued(event) for event in EVENTS],
        "policy": {
            "disabledByPolicy": bool(listing.off),
            "managedOnly": read_switch(session.rules.standing.settings, "allowManagedHooksOnly"),
            "pluginOnly": False,
            "allDisabled": bool(listing.off),
            "policyHookCount": sum(hook.source == "managed" for hook in listing.hooks),
        },
    }


def catalogued(event: Event) -> Json:
    return {"name": event.name, "summary": event.when, "supportsMatcher": bool(event.subject)}


def hooked(hook: Hook) -> Json:
    words = mask(hook.handler.title)
    condition = {"condition": hook.handler.condition} if hook.handler.condition else {}
    return {
        "event": hook.event.name,
        "matcher": hook.matcher or "",
        "source": SOURCES.get(hook.source, "sessionHook"),
        "sourceLabel": hook.where,
        "type": hook.kind,
        "displayText": words,
        "commandText": words,
        "contentLabel": hook.kind.capitalize(),
        "timeout": hook.timeout_s,
        **condition,
    }


async def register_repo_root(context: ControlContext, fields: Json) -> Json:
    """Make a folder inside a workspace folder an additional workspace folder."""
    rules = context.session.rules
    folder = find_folder(context.session, fields)
    roots = rules.standing.context.roots
    if not is_folder(folder):
        raise UserError(f"directory: folder not found: {folder}")
    if str(folder) in roots:
        raise UserError(f"directory: {folder} is already a folder of this session")
    if not any(Path(root) in folder.parents for root in roots):
        raise UserError(f"directory: {folder} is outside the session's folders")
    rules.update([FoldersUpdate(type="addDirectories", directories=(str(folder),))])
    added = {"directory": str(folder), "source": "register_repo_root"}
    context.session.parts.hooks.tell("DirectoryAdded", added)
    return {"directory": str(folder)}


def find_folder(session: Session, fields: Json) -> Path:
    return Path(session.workspace.cwd, str(fields.get("directory") or "")).resolve()


def count_work(session: Session) -> Json:
    """Return what this run has changed: lines, commits and pull requests."""
    state = session.costs.spending.state
    return {
        "lines_added": state.lines_added,
        "lines_removed": state.lines_removed,
        "commits": state.commits,
        "pull_requests": state.pull_requests,
    }


async def get_usage(context: ControlContext, _: Json) -> Json:
    session = context.session
    from clew.core.ledger.totals import describe_model_usage
    from clew.fronts.headless.result import cost_of

    ledger, state = session.ledger(), session.costs.spending.state
    return {
        "session": {
            "total_cost_usd": cost_of(ledger.total),
            "usage": ledger.total.tokens.as_usage(),
            "modelUsage": describe_model_usage(ledger, session.model_access.speaking.catalog),
            "duration_api_ms": round(state.api_ms),
            **count_work(session),
        },
        "rate_limits": None,
        "behaviors": None,
    }


async def get_session_state(context: ControlContext, _: Json) -> Json:
    """Return the session's models, its folders, the user's rules and the session's changes."""
    session = context.session
    state, past = session.costs.spending.state, session.costs.past
    return {
        "session_id": session.session_id,
        "model": session.model.id,
        "initial_model": state.initial_model,
        "models_used": list(session.ledger().by_model()),
        "is_on_fallback": state.is_on_fallback,
        "permission_mode": session.mode,
        "allowed_tools": list(session.rules.granted),
        "cwd": session.workspace.where(),
        "original_cwd": state.original_cwd,
        "started_at": past.started_at or state.started_at,
        "last_interaction_at": state.last_interaction_at or None,
        **count_work(session),
    }


async def generate_session_title(context: ControlContext, fields: Json) -> Json:
    """Ask the small model for a title for a description, and return it.

    If the host requests it, save the title as the session's.
    """
    session = context.session
    described = fields.get("description")
    if not isinstance(described, str) or not described.strip():
        raise UserError("generate_session_title: description: expected a non-empty string")
    answer = await session.model_access.ask(
        described[:DESCRIBED_CHARACTERS], system=SYSTEM, purpose="other"
    )
    if isinstance(answer, Failure):
        return {"title": None}
    title = as_title(answer) or None
    if title is not None and fields.get("persist") is True:
        session.story.recorder.generated_title(title)
    return {"title": title}


async def set_color(context: ControlContext, fields: Json) -> Json:
    """Set the color of the session's prompt in a terminal, now and after resuming."""
    color = fields.get("color")
    if color not in (*COLORS, NO_COLOR):
        raise UserError(
            f"set_color: invalid color {color!r}; expected one of {', '.join((*COLORS, NO_COLOR))}"
        )
    context.session.story.recorder.agent_color(str(color))
    return {"color": color}


async def set_has_subscribers(_: ControlContext, fields: Json) -> Json:
    """Accept the request, which has no effect: frames are always written at once."""
    if fields.get("has_subscribers") not in (True, False, None):
        raise UserError("set_has_subscribers: has_subscribers: expected true, false or null")
    return {}


def object_of(fields: Json, name: str) -> Json:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise UserError(f"{fields.get('subtype')}: {name}: expected an object")
    return msgspec.convert(value, dict[str, Any])


CONTROLS: ControlHandlers = {
    "apply_flag_settings": apply_flag_settings,
    "update_settings": update_settings,
    "get_settings": get_settings,
    "generate_session_title": generate_session_title,
    "set_has_subscribers": set_has_subscribers,
    "list_permission_rules": list_permission_rules,
    "get_hooks_listing": get_hooks_listing,
    "register_repo_root": register_repo_root,
    "get_usage": get_usage,
    "get_session_state": get_session_state,
    "set_color": set_color,
}
