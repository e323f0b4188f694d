"""One command file or skill: what its head says, and the name it is called by. Pure.

A command is a markdown file, a skill a folder with a `SKILL.md` and whatever belongs to it. Both are
called the same way, by a person (`/name`) and by the model (the Skill tool), so they are one type. The
text below the head is not kept here: it is read when the skill is called.

Decision: docs/decisions/136-trust-in-projects.md
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from clew.system.config.frontmatter import Frontmatter

# Whose words they are; the strongest first: of two with one name the earlier is called.
Origin: TypeAlias = Literal["managed", "user", "project", "plugin", "bundled", "mcp"]
ORIGINS: tuple[Origin, ...] = ("managed", "user", "project", "plugin", "bundled", "mcp")

MAX_DESCRIPTION = 1024
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class Skill(Struct, frozen=True, kw_only=True):
    """What is known of a skill before it is called. `folder` is empty for a command file.

    Of 500 that are listed few are called: what only a call needs is read from the head by then.
    """

    name: str
    origin: Origin
    file: str
    folder: str = ""
    description: str = ""
    # When the model should think of it, beyond the description.
    when: str = ""
    # The files it is for: until one of them is touched, the model is not told of it.
    paths: tuple[str, ...] = ()
    for_model: bool = True
    for_person: bool = True
    # Whether somebody vouches for it beyond where it lies; of a project's, whether the folder is trusted.
    is_vouched: bool = True
    # The folder of the plugin that brought it.
    plugin_root: str = ""
    head: Frontmatter = Frontmatter(values={}, body="")

    @property
    def qualified(self) -> str:
        """A name that nothing else has, also where something stronger has the plain one."""
        return f"{self.origin}:{self.name}"

    @property
    def hint(self) -> str:
        """What it takes, as help shows it."""
        return self.head.text("argument-hint")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments."""
        texts = self.head.texts("arguments")
        return tuple(word for text in texts for word in text.split() if word.isidentifier())

    @property
    def allowed_tools(self) -> tuple[str, ...]:
        """Rules of what runs unasked while it is at work; counted of files that a person vouches for."""
        return rules(self.head.texts("allowed-tools"))

    @property
    def disallowed_tools(self) -> tuple[str, ...]:
        """Rules of what does not run while it is at work, whoever wrote it."""
        return rules(self.head.texts("disallowed-tools"))

    @property
    def hooks(self) -> dict[str, Any]:
        """Programs at events while it is at work, as settings spell them; counted as rules are."""
        hooks = self.head.values.get("hooks")
        return hooks if isinstance(hooks, dict) else {}

    @property
    def shell(self) -> str:
        """The tool that runs the commands of its text."""
        return "PowerShell" if self.head.text("shell").lower() == "powershell" else "Bash"

    @property
    def model(self) -> str:
        model = self.head.text("model")
        return "" if model == "inherit" else model

    @property
    def agent(self) -> str:
        """The kind of agent that does it, in a context of its own; empty if none does."""
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
    """What a head says. `head.body` may be the beginning of the text alone."""
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
    """What a file without a description is about: its first line that says something."""
    lines = (line.strip().lstrip("#").strip("- ") for line in body.split("\n"))
    return next((line for line in lines if line), "")


def rules(texts: Sequence[str]) -> tuple[str, ...]:
    """Rules, with commas or spaces between them; spaces inside of parentheses are the rule's."""
    rule_texts: list[str] = []
    for text in texts:
        depth = 0
        begins = True
        for part in text.split(" "):
            if begins and part:
                rule_texts.append(part)
            elif not begins:
                rule_texts[-1] += f" {part}"
            depth += part.count("(") - part.count(")")
            begins = depth <= 0
    return tuple(rule_texts)


def rank_skills(skills: Sequence[Skill]) -> dict[str, Skill]:
    """By name: of each name the strongest, and under its qualified name every one that lost it."""
    order = sorted(skills, key=lambda skill: ORIGINS.index(skill.origin))
    by_name: dict[str, Skill] = {}
    for skill in order:
        if by_name.setdefault(skill.name, skill) is not skill:
            by_name.setdefault(skill.qualified, skill)
    return by_name
