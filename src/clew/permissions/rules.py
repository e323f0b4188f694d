"""Permission rules: their syntax, and an index that finds the rules for a request quickly.

Owns the syntax `Tool` and `Tool(content)`, its error messages, and `RuleSet`. Rules of all scopes
are equal: the list that contains a rule matters, not how specific the rule is (see `decide`). If a
restraining rule cannot be read, every decision becomes stricter (see `RuleSet.unreadable`).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, assert_never

from msgspec import Struct

from clew.core.hosts import spell_host
from clew.core.regex import lazy_pattern
from clew.permissions.index import CommandIndex, PathIndex
from clew.permissions.patterns import (
    MOST_PATTERNS,
    expand_braces,
    make_domain_regex,
    make_word_regex,
)
from clew.permissions.request import (
    JUDGED_FIELDS,
    MCP_PREFIX,
    SAME_TOOL,
    Family,
    Resolve,
    resolve_tool_name,
    tool_of,
)
from clew.system.config.json_text import Path
from clew.system.config.layers import Layer, Scope, order_layers, select_usable
from clew.system.config.settings import read_switch

Behavior = Literal["deny", "ask", "allow"]
BEHAVIORS: tuple[Behavior, ...] = ("deny", "ask", "allow")

LISTS: dict[str, Behavior] = {
    "deny": "deny",
    "ask": "ask",
    "askAfterUntrusted": "ask",
    "allow": "allow",
}

# Kinds of rules. A `path` rule of the read family applies to every tool that reads, and so on.
Kind = Literal["tool", "path", "command", "domain", "parameter", "subject"]

# Error messages quote at most this many characters of an invalid rule.
TOLD_CHARACTERS = 200

RULE = lazy_pattern(r"\s*([A-Za-z_*][\w*:.-]*)\s*(?:\((.*)\))?\s*", re.S)
PARAMETER = lazy_pattern(r"([A-Za-z_]\w*)\s*:\s*(.+)", re.S)


class RuleSource(Struct, frozen=True, kw_only=True):
    """The origin of a rule: its scope, its file, and its position in the file."""

    scope: Scope
    file: str | None = None
    path: Path = ()


class PermissionRule(Struct, frozen=True, kw_only=True):
    """One rule of an allow, ask or deny list.

    `root` is the folder to which a path pattern that begins with `/` is relative; `after_untrusted`
    limits the rule to calls that come after untrusted text.
    """

    behavior: Behavior
    tool: str
    content: str | None
    text: str
    root: str
    source: RuleSource
    kind: Kind
    after_untrusted: bool = False

    @property
    def is_broad(self) -> bool:
        """Return whether the rule covers every command, or exactly one command line."""
        content = self.content
        return content is None or "*" not in content or not content.strip("*: ")

    @property
    def is_exact(self) -> bool:
        """Return whether the rule allows exactly one command line."""
        return self.kind == "command" and self.content is not None and "*" not in self.content

    @property
    def says(self) -> str:
        """The effect of the rule, as a phrase for the user."""
        words = {"deny": "denied by", "ask": "needs approval under", "allow": "allowed by"}
        text = f"{words[self.behavior]} {self.text}"
        return (
            f"{text}, because the conversation contains untrusted text"
            if self.after_untrusted
            else text
        )


class RejectedRule(Struct, frozen=True, kw_only=True):
    """An invalid rule and its problem."""

    text: str
    what: str


class Anchors(Struct, frozen=True, kw_only=True):
    """The folders against which relative path patterns are resolved."""

    cwd: str
    home: str


def parse_rule(
    text: str,
    behavior: Behavior,
    *,
    root: str,
    source: RuleSource,
    after_untrusted: bool = False,
) -> PermissionRule | RejectedRule:
    match = RULE.fullmatch(text)
    if match is None:
        return RejectedRule(text=text, what="expected Tool or Tool(content)")
    content = match[2]
    if content is not None and content.strip() in ("", "*"):
        content = None
    # Denying Monitor does not deny Bash.
    tool = SAME_TOOL.get(match[1], match[1]) if content is None else resolve_tool_name(match[1])
    kind = kind_of(tool, content, behavior)
    problem = fault_in(tool, content, behavior, kind)
    if problem is not None:
        return RejectedRule(text=text, what=problem)
    return PermissionRule(
        behavior=behavior,
        tool=tool,
        content=content,
        text=text.strip(),
        root=root,
        source=source,
        kind=kind,
        after_untrusted=after_untrusted,
    )


# The input fields that a rule `Tool(field:value)` may name. For tools not listed here, any field
# may be named.
PARAMETERS: dict[Family, frozenset[str]] = {
    "shell": frozenset({"run_in_background", "timeout", "dangerouslyDisableSandbox", "command"}),
    "read": frozenset({"file_path", "notebook_path", "path", "pattern", "glob"}),
    "edit": frozenset({"file_path", "notebook_path", "path", "replace_all"}),
    "agent": frozenset({"model", "isolation", "run_in_background", "mode", "subagent_type"}),
    "skill": frozenset({"args", "skill"}),
    "fetch": frozenset({"prompt", "url"}),
}

KINDS: dict[Family, Kind] = {
    "read": "path", "edit": "path", "shell": "command", "fetch": "domain", "agent": "subject",
    "skill": "subject",
}  # fmt: skip


def kind_of(tool: str, content: str | None, behavior: Behavior) -> Kind:
    if content is None:
        return "tool"
    family = tool_of(tool).family
    match = PARAMETER.fullmatch(content) if behavior != "allow" else None
    if match and (family not in PARAMETERS or match[1] in PARAMETERS[family]):
        return "parameter"
    return KINDS.get(family, "subject")


def fault_in(tool: str, content: str | None, behavior: Behavior, kind: Kind) -> str | None:
    if "*" in tool and behavior == "allow":
        server = tool.removeprefix(MCP_PREFIX).partition("__")[0]
        if not tool.startswith(MCP_PREFIX) or "*" in server or tool.count("__") < 2:
            return "an allow rule must name its tool; * is only allowed after mcp__server__"
    if content is None:
        return None
    if "*" in tool or tool.startswith(MCP_PREFIX):
        if kind != "parameter":
            return "a rule for MCP tools, or with * in the tool name, cannot have content"
        return None
    if kind == "parameter":
        field = content.partition(":")[0].strip()
        if field in JUDGED_FIELDS:
            return f"{field} can't be used as a parameter: write {tool}(...) without {field}:"
    if kind == "domain":
        head, _, host = content.partition("domain:")
        if head or spell_host(host) is None:
            return "expected WebFetch(domain:host), without a scheme, port or path"
    if kind == "path" and content.startswith("!"):
        return "a path pattern cannot begin with !, because deny rules have no exceptions"
    if kind == "path" and len(expand_braces(content)) > MOST_PATTERNS:
        return f"its braces expand to more than {MOST_PATTERNS} patterns: write several rules, or use *"
    return None


def spell_domain(domain: str) -> tuple[str, str]:
    """Return a host with and without `www`.

    WebFetch follows redirects between the two, so a rule that restrains one must restrain both.
    """
    return domain, domain.removeprefix("www.") if domain.startswith("www.") else f"www.{domain}"


class RuleSet:
    """All rules, indexed. Nothing changes after `__init__` except caches.

    `unreadable` lists the settings that could not be read and may have contained a deny or ask
    rule. With `resolve`, a folder that a restraining rule names through a symbolic link is also
    known by its real name.
    """

    def __init__(
        self,
        rules: Sequence[PermissionRule],
        *,
        anchors: Anchors,
        unreadable: Sequence[str] = (),
        warnings: Sequence[str] = (),
        resolve: Resolve | None = None,
    ) -> None:
        self.rules = tuple(rules)
        self.anchors = anchors
        self.unreadable = tuple(unreadable)
        self.warnings = tuple(warnings)
        self.tools: dict[Behavior, list[PermissionRule]] = {b: [] for b in BEHAVIORS}
        self.others: dict[Behavior, dict[str, list[PermissionRule]]] = {b: {} for b in BEHAVIORS}
        self.commands = {b: CommandIndex() for b in BEHAVIORS}
        self.paths = {(b, f): PathIndex() for b in BEHAVIORS for f in ("read", "edit")}
        self._resolve = resolve
        self._spellings: dict[str, tuple[str, ...]] = {}
        for rule in rules:
            self._file(rule)
        # Whether any deny or ask rule names paths, or commands.
        self.restrains_paths = any(
            self.paths[b, f].size for b in ("deny", "ask") for f in ("read", "edit")
        )
        self.restrains_commands = self.restrains_paths or any(
            self.commands[b].size for b in ("deny", "ask")
        )

    def _file(self, rule: PermissionRule) -> None:
        match rule.kind:
            case "tool" if tool_of(rule.tool).family in ("read", "edit") and rule.tool in (
                "Read",
                "Edit",
            ):
                self._file_path(rule, "//**")
            case "tool":
                self.tools[rule.behavior].append(rule)
            case "path":
                for pattern in expand_braces(rule.content or ""):
                    self._file_path(rule, pattern)
            case "command":
                self.commands[rule.behavior].add(rule, rule.content or "")
            case "domain" | "parameter" | "subject":
                self.others[rule.behavior].setdefault(rule.tool, []).append(rule)
            case _ as never:
                assert_never(never)

    def _file_path(self, rule: PermissionRule, pattern: str) -> None:
        family = tool_of(rule.tool).family
        self.paths[rule.behavior, family].add(
            rule,
            pattern,
            root=rule.root,
            cwd=self.anchors.cwd,
            home=self.anchors.home,
            restrains=rule.behavior != "allow",
            spellings=self._spelled,
        )

    def _spelled(self, folder: str) -> tuple[str, ...]:
        """Return every name of a folder, including names through symbolic links."""
        if self._resolve is None:
            return (folder,)
        if folder not in self._spellings:
            self._spellings[folder] = self._resolve(folder).names
        return self._spellings[folder]

    @property
    def heeds_untrusted(self) -> bool:
        """Return whether any rule applies only after untrusted text."""
        return any(rule.after_untrusted for rule in self.rules)

    def for_tool(self, behavior: Behavior, tool: str, *, untrusted: bool) -> PermissionRule | None:
        """Return the first rule that applies to every call of the tool, or None."""
        for rule in self.tools[behavior]:
            if (untrusted or not rule.after_untrusted) and names_tool(rule.tool, tool):
                return rule
        return None

    def withholds(self, tool: str) -> bool:
        """Return whether a deny rule names the tool without conditions: then it is not offered."""
        return any(
            rule.behavior == "deny" and rule.kind == "tool" and names_tool(rule.tool, tool)
            for rule in self.rules
        )

    def for_value(
        self, behavior: Behavior, tool: str, kind: Kind, value: str, *, untrusted: bool
    ) -> PermissionRule | None:
        """Return the first rule whose content matches the given domain, agent or skill, or None."""
        for rule in self.others[behavior].get(tool, ()):
            if rule.kind == kind and (untrusted or not rule.after_untrusted):
                content = rule.content or ""
                if kind == "domain":
                    pattern = make_domain_regex(content.removeprefix("domain:"))
                    exact = behavior == "allow" or "*" in content
                    if any(map(pattern.fullmatch, [value] if exact else spell_domain(value))):
                        return rule
                elif subject_matches(content, value):
                    return rule
        return None

    def for_input(
        self, behavior: Behavior, tool: str, arguments: dict[str, Any], *, untrusted: bool
    ) -> PermissionRule | None:
        """Return the first rule `Tool(field:value)` that matches a field of the input, or None."""
        for rule in self.others[behavior].get(tool, ()):
            if rule.kind != "parameter" or (rule.after_untrusted and not untrusted):
                continue
            field, _, pattern = (rule.content or "").partition(":")
            if field.strip() in arguments:
                value = arguments[field.strip()]
                text = value if isinstance(value, str) else str(value).lower()
                if make_word_regex(pattern.strip()).fullmatch(text):
                    return rule
        return None


def names_tool(pattern: str, tool: str) -> bool:
    if pattern == tool:
        return True
    same = resolve_tool_name(tool)
    if same != tool and names_tool(pattern, same):
        return True
    if "*" in pattern:
        return make_word_regex(pattern).fullmatch(tool) is not None
    # `mcp__server` matches every tool of the server.
    return pattern.startswith(MCP_PREFIX) and tool.startswith(f"{pattern}__")


def subject_matches(content: str, value: str) -> bool:
    if content.endswith(":*"):
        head = content[:-2]
        return value == head or value.startswith((f"{head}:", f"{head} "))
    return make_word_regex(content).fullmatch(value) is not None


def read_rules(layers: Iterable[Layer]) -> tuple[list[PermissionRule], list[str], list[str]]:
    """Return the rules of every layer, the unreadable deny and ask settings, and warnings."""
    rules: list[PermissionRule] = []
    unreadable: list[str] = []
    warnings: list[str] = []
    layers = order_layers(layers)
    locks = [
        layer
        for layer in layers
        if layer.scope == "managed" and read_switch(layer.data, "allowManagedPermissionRulesOnly")
    ]
    # Managed settings from the host lift no restriction: what the user denied stays denied.
    managed_only = any(not layer.is_handed for layer in locks)
    for layer in layers:
        unreadable += restraints_lost(layer)
        if managed_only and layer.scope != "managed":
            continue
        for rule in rules_of(layer):
            if locks and layer.scope != "managed" and may_allow(rule):
                continue
            if isinstance(rule, PermissionRule):
                rules.append(rule)
                continue
            complaint = complain(layer, rule)
            (warnings if rule[0][1] == "allow" else unreadable).append(complaint)
    return rules, unreadable, warnings


def may_allow(rule: PermissionRule | tuple[Path, RejectedRule]) -> bool:
    return isinstance(rule, PermissionRule) and rule.behavior == "allow"


def rules_of(layer: Layer) -> Iterable[PermissionRule | tuple[Path, RejectedRule]]:
    permissions = select_usable(layer).get("permissions")
    lists = permissions if isinstance(permissions, dict) else {}
    for name, behavior in LISTS.items():
        for i, text in enumerate(lists.get(name, ())):
            path: Path = ("permissions", name, i)
            rule = parse_rule(
                text,
                behavior,
                root=layer.root,
                source=RuleSource(scope=layer.scope, file=layer.file, path=path),
                after_untrusted=name == "askAfterUntrusted",
            )
            yield (path, rule) if isinstance(rule, RejectedRule) else rule


def complain(layer: Layer, rejected: tuple[Path, RejectedRule]) -> str:
    path, rule = rejected
    line = layer.line(path)
    where = f"{layer.file}:{line}" if line else f"({layer.scope})"
    text = rule.text if len(rule.text) <= TOLD_CHARACTERS else f"{rule.text[:TOLD_CHARACTERS]}…"
    return f"{where}: {text}: {rule.what}"


def restraints_lost(layer: Layer) -> list[str]:
    """Return the unreadable parts of a layer that may have contained deny or ask rules."""
    if layer.unreadable is not None:
        return [layer.unreadable]
    lost = []
    for fault in layer.faults:
        restrains = fault.path == ("permissions",) or (
            fault.path[:1] == ("permissions",)
            and fault.path[1:2] in (("deny",), ("ask",), ("askAfterUntrusted",))
        )
        if fault.fatal and restrains:
            lost.append(layer.told(fault))
    return lost
