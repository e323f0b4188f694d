"""The front matter says what a skill is, its arguments, its effects and who may call it."""

from clew.parts.skills.skill import Origin, Skill, make_skill, rank_skills
from clew.system.config import frontmatter
from tests.requirements import requirement


def of(*lines: str, name: str = "x", origin: Origin = "user") -> Skill:
    head = frontmatter.read("\n".join(["---", *lines, "---", "", "# Do it", "well"]))
    return make_skill(head, name=name, origin=origin, file=f"/{origin}/{name}.md")


def test_a_head_that_says_nothing_leaves_a_skill_for_everybody() -> None:
    plain = of()
    assert (plain.description, plain.for_model, plain.for_person) == ("Do it", True, True)
    assert (plain.hint, plain.arguments, plain.allowed_tools, plain.model) == ("", (), (), "")
    assert plain.effort is None


@requirement("R221")
def test_what_a_head_says_counts() -> None:
    said = of(
        "description: Two",
        "  lines",
        "when_to_use: when asked",
        "argument-hint: [a] [b]",
        "arguments: [file, not-a-name]",
        "allowed-tools: Read Bash(git add:*), Bash(git log -1)  Grep",
        "model: opus",
        "effort: HIGH",
        "paths: src/**, *.{ts,tsx}",
        "disable-model-invocation: true",
        "user-invocable: no",
    )
    assert (said.description, said.when, said.hint) == ("Two lines", "when asked", "[a] [b]")
    assert said.arguments == ("file",)
    assert said.allowed_tools == ("Read", "Bash(git add:*)", "Bash(git log -1)", "Grep")
    assert (said.model, said.effort) == ("opus", "high")
    listed = of("allowed-tools:", "  - Read, Bash(echo a, b)", "  - Grep Glob,")
    assert listed.allowed_tools == ("Read", "Bash(echo a, b)", "Grep", "Glob")
    assert said.paths == ("src/**", "*.{ts,tsx}")
    assert (said.for_model, said.for_person) == (False, False)
    assert not of("user-invokable: false").for_person
    assert (of().agent, of("context: fork").agent) == ("", "general-purpose")
    assert of("context: fork", "agent: Plan").agent == "Plan"
    assert (of("model: inherit").model, of("effort: utmost").effort) == ("", None)


def test_of_one_name_the_users_own_is_called_and_the_others_stay_in_reach() -> None:
    mine, theirs, ours = (of(origin=o) for o in ("user", "project", "bundled"))
    found = rank_skills([ours, theirs, mine, of(name="y", origin="project")])
    assert found["x"] is mine
    assert found["project:x"] is theirs
    assert found["bundled:x"] is ours
    assert set(found) == {"x", "y", "project:x", "bundled:x"}


def test_a_file_without_words_has_no_description() -> None:
    empty = make_skill(frontmatter.read("---\nname: x\n---\n"), name="x", origin="user", file="f")
    assert empty.description == ""


def test_a_head_says_what_does_not_run_which_programs_do_and_in_what_shell() -> None:
    said = of("disallowed-tools: Bash(rm *)", "hooks:", "  Stop: []", "shell: PowerShell")
    assert said.disallowed_tools == ("Bash(rm *)",)
    assert (said.hooks, said.shell) == ({"Stop": []}, "PowerShell")
    assert (of().disallowed_tools, of("hooks: yes").hooks, of().shell) == ((), {}, "Bash")
