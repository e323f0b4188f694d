"""One command file or skill: its front matter, and the name by which it is called. Does no I/O.

A command is a Markdown file; a skill is a folder with a `SKILL.md` and supporting files. Both are
called the same way, by the user (`/name`) and by the model (the Skill tool), so they share a type.
The text below the front matter is not stored here; it is read when the skill is called.

Decision: docs/decisions/136-trust-in-projects.md
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from clew.system.config.frontmatter import Frontmatter

# The origins by descending precedence: of two skills with the same name, the first origin wins.
Origin: TypeAlias = Literal["managed", "user", "project", "plugin", "bundled", "mcp"]
ORIGINS: tuple[Origin, ...] = ("managed", "user", "project", "plugin", "bundled", "mcp")

MAX_DESCRIPTION = 1024
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class Skill(Struct, frozen=True, kw_only=True):
    """A skill, without its text. `folder` is empty for a command file.

    Only a few of the listed skills (there may be 500) are called, so fields that only a call needs
    are parsed on use.
    """

    name: str
    origin: Origin
    file: str
    folder: str = ""
    description: str = ""
    # When the model should use it, in addition to the description.
    when: str = ""
    # The files that the skill is for. It is not listed for the model until one of them is used.
    paths: tuple[str, ...] = ()
    for_model: bool = True
    for_person: bool = True
    # Whether its rules and hooks are trusted; for a project's skill, the folder must also be
    # trusted.
    is_vouched: bool = True
    # The folder of its plugin.
    plugin_root: str = ""
    head: Frontmatter = Frontmatter(values={}, body="")

    @property
    def qualified(self) -> str:
        """A unique name, which finds the skill even if another skill has the same plain name."""
        return f"{self.origin}:{self.name}"

    @property
    def hint(self) -> str:
        """The description of the arguments that help shows."""
        return self.head.text("argument-hint")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments that the skill declares."""
        texts = self.head.texts("arguments")
        return tuple(word for text in texts for word in text.split() if word.isidentifier())

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """Permission rules that allow calls while the skill is active.

        They apply only if the file is trusted.
        """
        return rules(self.head.texts("allowed-tools"))

    @property
    def disallowed_tools(self) -> tuple[str, ...]:
        """Permission rules that deny calls while the skill is active. They always apply."""
        return rules(self.head.texts("disallowed-tools"))

    @property
    def hooks(self) -> dict[str, Any]:
        """Hooks that run while the skill is active, in the same format as in settings.

        They apply only if the file is trusted.
        """
        hooks = self.head.values.get("hooks")
        return hooks if isinstance(hooks, dict) else {}

    @property
    def shell(self) -> str:
        """The name of the tool that runs the commands in the skill's text."""
        return "PowerShell" if self.head.text("shell").lower() == "powershell" else "Bash"

    @property
    def model(self) -> str:
        model = self.head.text("model")
        return "" if model == "inherit" else model

    @property
    def agent(self) -> str:
        """The type of subagent that runs the skill, or an empty string if none does."""
        if self.head.text("context") != "fork":
            return ""
        return self.head.text("agent") or "general-purpose"

    @property
    def effort(self) -> Effort | None:
        word = self.head.text("effort").lower()
        return next((effort for effort in EFFORTS if effort == word), None)


def make_skill(
    head: Frontmatter, *, name: str, origin: Origin, file: str, folder: str = ""
) -> Skill:
    """Return the skill that a front matter describes.

    `head.body` may be only the start of the text.
    """
    for_person = head.flag("user-invocable")
    if for_person is None:
        for_person = head.flag("user-invokable")
    return Skill(
        name=name,
        origin=origin,
        file=file,
        folder=folder,
        description=one_line(head.text("description") or first_words(head.body)),
        when=one_line(head.text("when_to_use") or head.text("when-to-use")),
        paths=head.texts("paths"),
        for_model=head.flag("disable-model-invocation") is not True,
        for_person=for_person is not False,
        head=structs.replace(head, body=""),
    )


def one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_DESCRIPTION]


def first_words(body: str) -> str:
    """Return the first line that contains text, as a description for a file without one."""
    lines = (line.strip().lstrip("#").strip("- ") for line in body.split("\n"))
    return next((line for line in lines if line), "")


def rules(texts: Sequence[str]) -> tuple[str, ...]:
    """Split strings into rules at commas and white space, except inside parentheses."""
    rule_texts: list[str] = []
    for text in texts:
        rule_texts.append("")
        depth = 0
        for character in text:
            depth += (character == "(") - (character == ")")
            if depth <= 0 and (character == "," or character.isspace()):
                rule_texts.append("")
            else:
                rule_texts[-1] += character
    return tuple(filter(None, rule_texts))


def rank_skills(skills: Sequence[Skill]) -> dict[str, Skill]:
    """Index skills by name. If several have the same name, the highest precedence wins.

    The others are indexed by their qualified names.
    """
    order = sorted(skills, key=lambda skill: ORIGINS.index(skill.origin))
    by_name: dict[str, Skill] = {}
    for skill in order:
        if by_name.setdefault(skill.name, skill) is not skill:
            by_name.setdefault(skill.qualified, skill)
    return by_name
