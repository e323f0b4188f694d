"""A folder to judge calls in: files, secrets, links, and rules written as lists of text."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from clew.permissions.decide import decide
from clew.permissions.decision import Decision, verdict
from clew.permissions.request import Context, HeldByGit, Mode, PermissionRequest, Resolve
from clew.permissions.resolver import make_resolver
from clew.permissions.rules import (
    LISTS,
    Anchors,
    PermissionRule,
    RejectedRule,
    RuleSet,
    RuleSource,
    parse_rule,
)


class World:
    """A workspace and a home below one folder."""

    def __init__(self, root: Path) -> None:
        root = root.resolve()
        self.cwd, self.home = root / "work", root / "home"
        for folder in (
            self.cwd / "src",
            self.cwd / "secrets",
            self.cwd / "lib" / "secrets",
            self.cwd / "deep" / "er",
            self.home / ".ssh",
            root / "elsewhere",
        ):
            folder.mkdir(parents=True)
        for name in ("a.py", "b.py", "a.json", ".env", "src/a.py", "secrets/key", "deep/er/.env"):
            (self.cwd / name).write_text("x\n", "utf-8")
        (self.home / ".ssh" / "id_rsa").write_text("x\n", "utf-8")
        (self.cwd / "link-to-env").symlink_to(self.cwd / ".env")
        (self.cwd / "link-to-secrets").symlink_to("secrets")
        (self.cwd / "link-to-home").symlink_to(self.home)
        # What git keeps of what rules restrain; by default nothing.
        self.held_by_git = HeldByGit(is_known=True, top=str(self.cwd))
        self.resolve: Resolve = make_resolver(cwd=str(self.cwd), home=str(self.home))

    def rules(self, **lists: Iterable[str]) -> RuleSet:
        found: list[PermissionRule] = []
        for name, texts in lists.items():
            for text in texts:
                rule = parse_rule(
                    text,
                    LISTS[name],
                    root=str(self.cwd),
                    source=RuleSource(scope="project"),
                    after_untrusted=name == "askAfterUntrusted",
                )
                assert not isinstance(rule, RejectedRule), rule
                found.append(rule)
        anchors = Anchors(cwd=str(self.cwd), home=str(self.home))
        return RuleSet(found, anchors=anchors, resolve=self.resolve)

    def context(self, mode: Mode = "default", **more: Any) -> Context:
        return Context(
            cwd=str(self.cwd),
            home=str(self.home),
            mode=mode,
            config_home=str(self.home / ".claude"),
            **{"held_by_git": lambda _: self.held_by_git} | more,
        )

    def decide(
        self,
        tool: str,
        given: dict[str, Any],
        rules: RuleSet | None = None,
        mode: Mode = "default",
        *,
        untrusted: Sequence[str] = (),
        read_only: bool = False,
        **more: Any,
    ) -> Decision:
        request = PermissionRequest(
            tool=tool, input=given, untrusted=tuple(untrusted), read_only=read_only
        )
        return decide(request, rules or self.rules(), self.context(mode, **more), self.resolve)

    def verdict(self, tool: str, given: dict[str, Any], *args: Any, **more: Any) -> str:
        return verdict(self.decide(tool, given, *args, **more))

    def bash(self, command: str, *args: Any, **more: Any) -> str:
        return self.verdict("Bash", {"command": command}, *args, **more)
