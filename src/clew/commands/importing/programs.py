"""Readers for the configurations of codex, gemini, opencode, Cursor, Copilot and Windsurf.

Each format is described in the program's documentation. A reader imports the keys that have a
counterpart in clew, and reports the others. Readers do no I/O.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

from clew.commands.importing.offer import (
    ImportedRule,
    Offer,
    prefix_rules,
    shell_rule,
    take_servers,
)
from clew.core.json_object import Json, object_of
from clew.system.config.frontmatter import read as read_frontmatter

OWN_CHOICE = (
    "choose the permission mode yourself, with --permission-mode or permissions.defaultMode"
)


def texts_of(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def read_codex(offer: Offer, data: Json) -> None:
    take_servers(offer, data.get("mcp_servers"))
    offer.model = str(data.get("model") or "")
    for name in ("approval_policy", "sandbox_mode"):
        if name in data:
            offer.leave(f"{name} = {data[name]}", OWN_CHOICE)
    workspace = object_of(data.get("sandbox_workspace_write"))
    offer.folders += texts_of(workspace.get("writable_roots"))
    members = ("mcp_servers", "model", "approval_policy", "sandbox_mode", "sandbox_workspace_write")
    offer.leave_rest(data, members)


DECISIONS = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}


def read_codex_rules(offer: Offer, text: str) -> None:
    """Read `prefix_rule(pattern=[...], decision="...")` calls, which have Python syntax."""
    try:
        calls = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        offer.leave("all rules", f"can't be read: {error}")
        return
    for statement in calls:
        call = statement.value if isinstance(statement, ast.Expr) else None
        try:
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != "prefix_rule":
                raise ValueError
            fields = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            behavior = DECISIONS[fields.get("decision", "allow")]
            for rule in prefix_rules(list(fields["pattern"])):
                offer.permit(behavior, rule)
        except (ValueError, KeyError, TypeError):
            offer.leave(f"line {statement.lineno}", "not a prefix_rule that clew can read")


GEMINI_TOOLS = {
    "run_shell_command": "Bash", "read_file": "Read", "read_many_files": "Read",
    "write_file": "Write", "replace": "Edit", "glob": "Glob", "search_file_content": "Grep",
    "grep_search": "Grep", "list_directory": "LS", "web_fetch": "WebFetch",
    "google_web_search": "WebSearch", "write_todos": "TodoWrite",
    "ShellTool": "Bash", "ReadFileTool": "Read", "WriteFileTool": "Write", "EditTool": "Edit",
}  # fmt: skip
CALL = re.compile(r"([\w.*-]+)(?:\((.*)\))?", re.S)


def read_gemini(offer: Offer, data: Json) -> None:
    take_servers(offer, data.get("mcpServers"))
    model = data.get("model")
    offer.model = str(model.get("name") or "") if isinstance(model, dict) else str(model or "")
    tools, context = object_of(data.get("tools")), object_of(data.get("context"))
    for behavior, names in (
        ("allow", (*texts_of(tools.get("allowed")), *texts_of(data.get("allowedTools")))),
        ("deny", (*texts_of(tools.get("exclude")), *texts_of(data.get("excludeTools")))),
    ):
        for name in names:
            take_gemini_tool(offer, behavior, name)
    folders = context.get("includeDirectories", data.get("includeDirectories"))
    offer.folders += texts_of(folders)
    mode = object_of(data.get("general")).get("defaultApprovalMode")
    if mode is not None:
        offer.leave(f"general.defaultApprovalMode = {mode}", OWN_CHOICE)
    for group, members in (("tools", ("allowed", "exclude")), ("context", ("includeDirectories",))):
        rest = sorted(set(object_of(data.get(group))) - set(members))
        if rest:
            offer.leave(", ".join(f"{group}.{name}" for name in rest), "clew has no equivalent")
    offer.leave_rest(
        data,
        ("mcpServers", "model", "tools", "context", "allowedTools", "excludeTools", "general",
         "includeDirectories"),
    )  # fmt: skip


def take_gemini_tool(offer: Offer, behavior: str, text: str) -> None:
    match = CALL.fullmatch(text)
    tool = GEMINI_TOOLS.get(match[1]) if match else None
    if match is None or tool is None:
        offer.leave(f"{behavior} {text}", "unknown tool")
    elif match[2] and tool == "Bash":
        offer.permit(behavior, shell_rule(match[2].split()))
    elif match[2]:
        offer.leave(f"{behavior} {text}", "clew's rules for this tool have a different format")
    else:
        offer.permit(behavior, tool)


OPENCODE_TOOLS = {
    "bash": "Bash", "edit": "Edit", "read": "Read", "glob": "Glob", "grep": "Grep", "list": "LS",
    "webfetch": "WebFetch", "websearch": "WebSearch", "todowrite": "TodoWrite", "task": "Agent",
}  # fmt: skip

ASKED = ("Bash", "Edit", "WebFetch")


def read_opencode(offer: Offer, data: Json) -> None:
    take_servers(offer, data.get("mcp"))
    offer.model = str(data.get("model") or "")
    permission = data.get("permission")
    if isinstance(permission, str):
        offer.leave(f"permission = {permission}", OWN_CHOICE)
    for name, value in object_of(data.get("permission")).items():
        tool = OPENCODE_TOOLS.get(name)
        if tool is None:
            offer.leave(f"permission.{name}", "clew has no equivalent")
        elif isinstance(value, dict):
            take_patterns(offer, tool, value)
        # clew asks anyway if no rule matches.
        elif value in ("allow", "deny") or (value == "ask" and tool not in ASKED):
            offer.permit(value, tool)
    for name, is_on in object_of(data.get("tools")).items():
        if is_on is False and name in OPENCODE_TOOLS:
            offer.permit("deny", OPENCODE_TOOLS[name])
        elif is_on is False:
            offer.leave(f"tools.{name}", "unknown tool")
    offer.leave_rest(data, ("mcp", "model", "permission", "tools", "$schema"))


def take_patterns(offer: Offer, tool: str, patterns: Json) -> None:
    """Import patterns for commands or files, of which opencode applies the last one that matches.

    In clew, deny overrides ask, and ask overrides allow. Therefore, `*: deny` is not imported: it
    would override the more specific patterns.
    """
    everything = patterns.get("*")
    if everything == "deny":
        offer.leave(f"{tool} *: deny", "in clew, this rule would override the more specific rules")
    elif everything == "allow":
        offer.permit("allow", tool)
    for pattern, behavior in patterns.items():
        if pattern == "*":
            continue
        if behavior not in ("allow", "ask", "deny"):
            offer.leave(f"{tool} {pattern}", f'unknown decision "{behavior}"')
        else:
            offer.permit(behavior, f"{tool}({pattern})")


CURSOR_RULE = re.compile(r"(Shell|Read|Write|WebFetch|Mcp)\((.*)\)", re.S)


def read_cursor_permissions(offer: Offer, data: Json) -> None:
    permissions = object_of(data.get("permissions"))
    for behavior in ("allow", "deny"):
        for text in texts_of(permissions.get(behavior)):
            match = CURSOR_RULE.fullmatch(text)
            rule = "" if match is None else cursor_rule(match[1], match[2])
            if rule:
                offer.permit(behavior, rule)
            else:
                offer.leave(f"{behavior} {text}", "unknown rule format")
    offer.leave_rest(data, ("permissions", "version"))


def cursor_rule(kind: str, content: str) -> str:
    if kind == "Shell":
        program, _, rest = content.partition(":")
        return shell_rule([program]) if rest in ("", "*", "**") else shell_rule([program, rest])
    if kind == "Mcp":
        server, _, tool = content.partition(":")
        return f"mcp__{server}" if tool in ("", "*") else f"mcp__{server}__{tool}"
    if kind == "WebFetch":
        return "WebFetch" if content == "*" else f"WebFetch(domain:{content})"
    return f"{'Edit' if kind == 'Write' else kind}({content})"


def read_servers_only(offer: Offer, data: Json) -> None:
    """Read a file with MCP servers from Cursor, Copilot, Windsurf or VS Code."""
    take_servers(offer, data.get("mcpServers", data.get("servers")))
    offer.leave_rest(data, ("mcpServers", "servers"))


# Rules.


def read_rule(offer: Offer, name: str, text: str) -> None:
    """Add an instruction file, with the patterns of the files it applies to."""
    head = read_frontmatter(text)
    body, description = head.body.strip(), head.text("description")
    trigger, always = head.text("trigger"), head.text("alwaysApply").lower()
    globs = tuple(split_globs(head.text("globs") or head.text("applyTo")))
    if not body:
        offer.leave(f"rule {name}", "empty")
        return
    is_for_all = trigger == "always_on" or always == "true" or set(globs) & {"**", "**/*", "*"}
    is_plain = not trigger and not always
    if globs and not is_for_all:
        rule = ImportedRule(name=name, text=body, source=offer.file, paths=globs)
    elif is_for_all or (is_plain and not description) or (is_plain and globs):
        rule = ImportedRule(name=name, text=body, source=offer.file)
    elif description and trigger != "manual":
        rule = ImportedRule(name=name, text=body, source=offer.file, description=description)
    else:
        offer.leave(f"rule {name}", "applies only when you mention it with @ and the file name")
        return
    offer.rules.append(rule)


def split_globs(text: str) -> Iterator[str]:
    """Yield the patterns of a list separated by commas outside braces."""
    for part in re.split(r",(?![^{]*\})", text.strip("[] ")):
        if pattern := part.strip().strip("\"'"):
            yield pattern
