"""The permission rules of a running session: applied to every call, and reloaded between turns.

Owns the current rules and the mode. Three things never change after the start of the session: its
folders, its environment (see `clew.system.config.environment`) and the command line's settings.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from clew.core.messages.errors import SettingsError
from clew.permissions.decision import Decision
from clew.permissions.modes import ALIASES, RefusedMode, enter_mode, find_disabled_modes
from clew.permissions.protected import in_workspace, is_below, is_own_result, why_protected_write
from clew.permissions.provenance import Source
from clew.permissions.request import (
    HeldByGit,
    Mode,
    PermissionRequest,
    Resolve,
    ResolvedPath,
    tool_of,
)
from clew.permissions.resolver import make_resolver
from clew.permissions.rules import (
    LISTS,
    PermissionRule,
    RejectedRule,
    RuleSet,
    RuleSource,
    parse_rule,
)
from clew.permissions.session_rules import CurrentRules, load_current_rules
from clew.permissions.updates import (
    SCOPES,
    ModeUpdate,
    RuleSpelled,
    RulesUpdate,
    Update,
    key_of,
    with_update,
)
from clew.system.config.environment import freeze
from clew.system.config.git_exclude import exclude_from_git
from clew.system.config.git_guard import find_repository_programs, repository_of
from clew.system.config.json_text import set_value
from clew.system.config.layers import OF_THE_FOLDER, Scope
from clew.system.config.load import CommandLineSettings, find_changed, read, remember_rules, trusts
from clew.system.config.settings import check, read_text
from clew.system.files import find_way_out, hold_lock, is_there, replace

if TYPE_CHECKING:
    from clew.permissions.reading import CommandLine

# The folder for plan files, the only files that the model may change in plan mode.


DEFAULT = "plans"


def plan_file(standing: CurrentRules, session_id: str) -> str:
    """Return the real path of the plan file."""
    directory = read_text(standing.settings, "plansDirectory")
    if directory:
        root = standing.resolve(str(standing.places.root)).real
        folder = directory if directory.startswith(("/", "~")) else f"{root}/{directory}"
        path = standing.resolve(f"{folder}/{session_id}.md")
        # A link there would let the model write another file in the project in plan mode.
        is_own = path.real == f"{standing.resolve(folder).real}/{session_id}.md"
        usable = path.known and is_own and is_below(path.real, root)
        if usable and why_protected_write(path, standing.context) is None:
            return path.real
    return f"{standing.context.config_home}/{DEFAULT}/{session_id}.md"


READ_AGAIN = "settings were reloaded"


def of_own(noticed: Iterable[str]) -> tuple[str, ...]:
    """Return the messages to show after the session itself changed the settings.

    These are all messages except the one about reloading.
    """
    return tuple(line for line in noticed if line != READ_AGAIN)


class Walls(Protocol):
    """The properties of the sandbox that permission decisions depend on."""

    @property
    def is_wanted(self) -> bool:
        """True if commands run in the sandbox.

        If so, the files that these commands write must not widen any permission.
        """

    @property
    def has_walls(self) -> bool:
        """True if the read-only sandbox is available for commands that run without asking."""

    def held_by_git(self, folder: str, held_against: RuleSet) -> HeldByGit:
        """Return the restrained files in the index or history of the repository around a folder."""


class NoWalls:
    """The sandbox's properties that are assumed until the sandbox is set up."""

    is_wanted = False
    has_walls = True

    def held_by_git(self, _folder: str, _held_against: RuleSet) -> HeldByGit:
        return HeldByGit()


class SessionRules:
    """The permission rules of a running session, and the changes to them.

    `standing` holds the current rules as one value, so a turn can keep the value it started with.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        cwd: Path,
        *,
        mode: Mode | None,
        command_line: CommandLineSettings | None,
        sources: Sequence[Scope] = ("user", "project", "local"),
    ) -> None:
        self._environ = environ
        self._given = command_line
        # The allow rules that the user or the host added during the session.
        self._granted: dict[str, None] = {}
        self._results: tuple[str, ...] = ()
        self._memory = ""
        self._sources = sources
        self._session_id = ""
        self._lent: tuple[tuple[RuleSpelled, ...], tuple[RuleSpelled, ...]] = ((), ())
        # Called with the new mode after each change of the mode.
        self.mode_watchers: list[Callable[[Mode], object]] = []
        # Scopes whose changed settings a hook rejected.
        self._refused: set[Scope] = set()
        current = load_current_rules(
            environ, cwd, mode=mode, command_line=command_line, sources=sources
        )
        self._walls: Walls = NoWalls()
        settled = enter_current_mode(current)
        if isinstance(settled, RefusedMode):
            raise SettingsError(f"permission mode {settled.mode}: {settled.why}")
        self.standing = current

    def rely_on(self, walls: Walls) -> None:
        """Base all further decisions on the properties of the given sandbox."""
        self._walls = walls

    @property
    def mode(self) -> Mode:
        return self.standing.context.mode

    def judge(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        cwd: str,
        untrusted: Sequence[str] = (),
        mode: Mode | None = None,
        denied: Sequence[str] = (),
        folders: Sequence[str] = (),
        line: "CommandLine | None" = None,
        places: dict[str, str] | None = None,
    ) -> Decision:
        """Decide whether a call may run in the folder `cwd`, after text of the origins `untrusted`.

        `mode`, `denied` and `folders` apply to a subagent's conversation: its own mode, additional
        deny rules and additional working folders. `line` is the parsed command line of the call, if
        it was parsed before. `places` gets the real path of each file that the call names.
        """
        # The command-line parser is half of everything that a turn without a tool call would
        # import.
        from clew.permissions.decide import decide

        now = self.standing
        resolve = make_resolver(cwd=os.path.realpath(cwd), home=now.context.home)
        if places is not None and tool_of(tool).family in ("read", "edit"):
            resolve = note_places(resolve, places)
        rules = self._narrowed(denied) if denied else now.rules
        context = structs.replace(
            now.context,
            results=self._results,
            memory=self._memory,
            plan_file=self.plan_file or None,
            mode=now.context.mode if mode is None else mode,
            has_walls=self._walls.has_walls,
            directories=(*now.context.directories, *folders),
            git_programs=self.git_programs(cwd) if tool_of(tool).family == "shell" else (),
            held_by_git=lambda folder: self._walls.held_by_git(folder, rules),
        )
        return decide(
            PermissionRequest(tool=tool, input=arguments, untrusted=tuple(untrusted), line=line),
            rules,
            context,
            resolve,
        )

    def _narrowed(self, denied: Sequence[str]) -> RuleSet:
        rules, root = self.standing.rules, str(self.standing.places.root)
        source = RuleSource(scope="session")
        extra_rules = [parse_rule(text, "deny", root=root, source=source) for text in denied]
        return RuleSet(
            (*rules.rules, *(rule for rule in extra_rules if isinstance(rule, PermissionRule))),
            anchors=rules.anchors,
            unreadable=(
                *rules.unreadable,
                *(r.what for r in extra_rules if isinstance(r, RejectedRule)),
            ),
        )

    def git_programs(self, cwd: str) -> tuple[str, ...]:
        """Return the git settings that would make git start programs in the shell's current folder.

        The repository of a trusted folder is not checked. A repository nested inside that folder is
        checked, because it may come from elsewhere.
        """
        now = self.standing
        folder, root = Path(os.path.realpath(cwd)), now.places.root.resolve()
        is_inside = now.is_trusted and folder.is_relative_to(root)
        if folder == root and is_inside:
            return ()
        if (is_inside and is_same_repository(folder, root)) or (
            not is_inside and trusts(now.places, folder)
        ):
            return ()
        return find_repository_programs(str(folder))

    def keeps_plan_of(self, session_id: str) -> None:
        """Let the model write this session's plan file, even in plan mode."""
        self._session_id = session_id

    @property
    def plan_file(self) -> str:
        """The path of the plan file, or an empty string before `keeps_plan_of` was called."""
        return plan_file(self.standing, self._session_id) if self._session_id else ""

    def place(self, path: str) -> Source:
        """Return the origin of a file's text.

        It is `project` for a file that is in the workspace or the memory folder, `session` for a
        stored tool result, otherwise `file`.
        """
        now = self.standing
        inside = structs.replace(now.context, memory=self._memory)
        resolved_path = now.resolve(path)
        if in_workspace(resolved_path, inside) or is_own_result(resolved_path, inside):
            return "project"
        results = structs.replace(now.context, results=self._results)
        return "session" if is_own_result(resolved_path, results) else "file"

    def keeps_results_in(self, *folders: Path) -> None:
        """Let the model read the tool results stored in these folders.

        A folder is ignored if it or its parent is a symbolic link: a session's files may come from
        someone else, and a link in them could lead to any folder.
        """
        places = [
            f"{os.path.realpath(folder.parent.parent)}/{folder.parent.name}/{folder.name}"
            for folder in folders
        ]
        self._results = tuple(place for place in places if os.path.realpath(place) == place)

    def reads_memory_in(self, folder: Path) -> None:
        """Let the model read the notes of earlier sessions in this folder."""
        self._memory = os.path.realpath(folder)

    def may_read(self, top: str) -> Callable[[str], bool]:
        """Return a function that says whether a search below `top` may show a file.

        The function accepts only names of ordinary files, so it resolves the links of each folder
        only once.
        """
        from clew.permissions.decide import may_read

        now = self.standing
        resolve = make_resolver(cwd=os.path.realpath(top), home=now.context.home)
        searched = resolve(".")
        folders: dict[str, ResolvedPath] = {}

        def shown(name: str) -> bool:
            folder, _, base = name.rpartition("/")
            if folder not in folders:
                folders[folder] = resolve(folder or ".")
            resolved_path = folders[folder]
            names = tuple(f"{name.rstrip('/')}/{base}" for name in resolved_path.names)
            path = structs.replace(resolved_path, names=names, is_file=True)
            return may_read(now.rules, path, now.context, resolve, searched=searched)

        return shown

    def may_fetch(self, url: str) -> bool:
        """Return whether a redirect to this URL may be followed: no deny or ask rule matches it."""
        decision = self.judge(
            "WebFetch", {"url": url}, cwd=self.standing.context.cwd, untrusted=("web",)
        )
        rules = [finding.rule for finding in decision.findings if finding.rule is not None]
        return all(rule.behavior == "allow" for rule in rules)

    def changes(self) -> list[tuple[Scope, Path]]:
        """Return the settings files that changed since they were read."""
        places = self.standing.places
        scopes: dict[Path, Scope] = {
            places.user_settings: "user",
            places.project_settings: "project",
            places.local_settings: "local",
        }
        return [(scopes.get(path, "managed"), path) for path in find_changed(self.standing.loaded)]

    def refresh(self, refused: Sequence[Scope] = ()) -> tuple[str, ...]:
        """Reload the settings if a file changed, and return messages for the user.

        The settings of the `refused` scopes stay as they are until their file changes again.
        """
        before = self.standing
        changes = self.changes()
        if not changes:
            return ()
        self._refused = {*self._refused, *refused} - {s for s, _ in changes if s not in refused}
        current = self._stand(before.context.mode)
        notes = [line for line in current.complaints if line not in before.complaints]
        settled = enter_current_mode(current)
        if isinstance(settled, RefusedMode):
            notes.append(
                f"permission mode {settled.mode}: {settled.why}; using mode default instead"
            )
            current = structs.replace(
                current, context=structs.replace(current.context, mode="default")
            )
        self.standing = current
        news = () if len(refused) == len(changes) else (READ_AGAIN,)
        refusals = tuple(f"a hook blocked a change to {scope} settings" for scope in refused)
        return (*news, *refusals, *notes)

    def _stand(self, mode: Mode) -> CurrentRules:
        places = self.standing.places
        ignored_scopes = {*self._refused, *(OF_THE_FOLDER if self._walls.is_wanted else ())}
        return load_current_rules(
            self._environ,
            places.cwd,
            mode=mode,
            command_line=self._with_lent(),
            places=places,
            sources=self._sources,
            ignored_scopes=ignored_scopes,
            before=self.standing.loaded.layers,
        )

    def set_mode(self, word: str) -> Mode:
        """Switch to a mode. Raise `SettingsError` if this process may not use it."""
        before = self.standing
        context = structs.replace(before.context, mode=ALIASES.get(word, word))
        mode = enter_current_mode(structs.replace(before, context=context))
        if isinstance(mode, RefusedMode):
            raise SettingsError(f"permission mode {mode.mode}: {mode.why}")
        self.standing = structs.replace(before, context=structs.replace(context, mode=mode))
        if mode != before.context.mode:
            for tell in self.mode_watchers:
                tell(mode)
        return mode

    def lend(self, allowed: Sequence[str], denied: Sequence[str] = ()) -> None:
        """Replace the session's temporary rules with the given ones.

        All other rules stay in force.
        """
        spelled = (
            tuple(RuleSpelled.of(rule) for rule in allowed),
            tuple(RuleSpelled.of(rule) for rule in denied),
        )
        if spelled != self._lent:
            self._lent = spelled
            self.standing = self._stand(self.mode)

    def _with_lent(self) -> CommandLineSettings | None:
        allowed, denied = self._lent
        if not allowed and not denied:
            return self._given
        command_line = self._given or CommandLineSettings(data={})
        data = with_update(
            command_line.data, RulesUpdate(type="addRules", rules=allowed, behavior="allow")
        )
        data = with_update(data, RulesUpdate(type="addRules", rules=denied, behavior="deny"))
        return structs.replace(command_line, data=data)

    def update(self, updates: Sequence[Update], *, is_by_user: bool = False) -> None:
        """Apply changes from the user or the host, for the session or to a settings file.

        All updates are checked before any is applied. Raise `SettingsError` if one is invalid.
        `is_by_user` means that the user chose them at the keyboard. The allow rules that the user
        saves in the project then apply even in an untrusted folder, but its other rules do not.
        """
        for update in updates:
            self._check(update)
        for update in updates:
            if update.destination != "session":
                self._write(update)
                self._remember(update, is_by_user=is_by_user)
            # The file may be ignored because the folder is not trusted yet. The change is meant for
            # this session in any case.
            if isinstance(update, ModeUpdate):
                self.set_mode(update.mode)
            else:
                self._note_granted(update)
                command_line = self._given or CommandLineSettings(data={})
                self._given = structs.replace(
                    command_line, data=with_update(command_line.data, update)
                )
        self.standing = self._stand(self.mode)

    @property
    def granted(self) -> tuple[str, ...]:
        """The allow rules that were added during the session."""
        return tuple(self._granted)

    def _note_granted(self, update: Update) -> None:
        if isinstance(update, RulesUpdate) and update.behavior == "allow":
            for rule in update.rules:
                if update.type == "removeRules":
                    self._granted.pop(rule.text, None)
                else:
                    self._granted[rule.text] = None

    def overlay(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Override settings for this session. None removes an earlier override.

        Return messages for the user. Raise `SettingsError` if a setting is invalid.
        """
        command_line = self._given or CommandLineSettings(data={})
        data = {k: v for k, v in (command_line.data | dict(settings)).items() if v is not None}
        faults = [fault for fault in check(data) if fault.fatal and fault.path[0] in settings]
        if faults:
            raise SettingsError(str(faults[0]))
        before = self.standing
        self._given = structs.replace(command_line, data=data)
        self.standing = self._stand(self.mode)
        return tuple(line for line in self.standing.complaints if line not in before.complaints)

    def _check(self, update: Update) -> None:
        if isinstance(update, ModeUpdate):
            context = structs.replace(
                self.standing.context, mode=ALIASES.get(update.mode, update.mode)
            )
            refused = enter_current_mode(structs.replace(self.standing, context=context))
            if isinstance(refused, RefusedMode):
                raise SettingsError(f"permission mode {refused.mode}: {refused.why}")
        if isinstance(update, RulesUpdate) and update.type != "removeRules":
            for rule in update.rules:
                source = RuleSource(scope="cli")
                parsed = parse_rule(rule.text, LISTS[update.behavior], root="/", source=source)
                if isinstance(parsed, RejectedRule):
                    raise SettingsError(f"{rule.text}: {parsed.what}")

    def _remember(self, update: Update, *, is_by_user: bool) -> None:
        """Record which allow rules in the local settings the user saved."""
        if not (
            isinstance(update, RulesUpdate)
            and update.behavior == "allow"
            and update.destination == "localSettings"
        ):
            return
        texts = [rule.text for rule in update.rules]
        places = self.standing.places
        if update.type == "removeRules":
            remember_rules(places, removed=texts)
        elif is_by_user:
            remember_rules(places, saved=texts)

    def _write(self, update: Update) -> None:
        """Write an update to the settings file that it names; leave every other byte unchanged."""
        scope = SCOPES[update.destination]
        places = self.standing.places
        path = places.settings_file(scope)
        if scope in OF_THE_FOLDER and not self.standing.is_trusted:
            leads_to = find_way_out(path, places.root)
            if leads_to:
                raise SettingsError(
                    f"can't write {path}: it is a link to {leads_to}, "
                    "and this folder is not trusted"
                )
        is_new = not is_there(path)
        with hold_lock(places.config_home):
            layer = read("local", path, str(places.root)) if is_there(path) else None
            if layer is not None and layer.unreadable is not None:
                raise SettingsError(layer.unreadable)
            text, data = ("", {}) if layer is None else (layer.text, layer.data)
            name = key_of(update)
            value = with_update(data, update)["permissions"][name]
            replace(path, set_value(text, ("permissions", name), value))
        if is_new and scope == "local":
            exclude_from_git(path, self._environ)


def note_places(resolve: Resolve, places: dict[str, str]) -> Resolve:
    """Return a resolver that notes the real path of each path that it resolves.

    Paths whose files are unknown are not noted, nor are paths in `/proc`, where only the kernel
    creates links.
    """

    def resolve_and_note(text: str) -> ResolvedPath:
        path = resolve(text)
        if path.known and not path.real.startswith("/proc/"):
            places[text] = path.real
        return path

    return resolve_and_note


def is_same_repository(folder: Path, root: Path) -> bool:
    try:
        return repository_of(folder) == repository_of(root)
    except (OSError, ValueError):
        return False


def enter_current_mode(current: CurrentRules) -> Mode | RefusedMode:
    """Return the current mode if this process may use it, otherwise the refusal with its reason."""
    return enter_mode(
        current.context.mode,
        is_root=os.geteuid() == 0,
        is_sandboxed=freeze(current.environ).switch("sandboxed"),
        disabled=find_disabled_modes(current.settings),
    )
