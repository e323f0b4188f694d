"""`Always allow` offers rules that fit the next call too, and none that would allow anything."""

from typing import Any

import pytest

from clew.permissions.decision import Finding, describe_reason, make_decision, verdict
from clew.permissions.request import PermissionRequest
from clew.permissions.suggest import suggest_rules
from tests.permissions.world import World


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("Bash", {"command": "npm run build --watch"}, ["Bash(npm run build *)"]),
        ("Bash", {"command": "npm run"}, ["Bash(npm run)"]),
        ("Bash", {"command": "npm run 'a b'"}, ["Bash(npm run 'a b')"]),
        (
            "Bash",
            {"command": "npm test && cargo build -q"},
            ["Bash(npm test *)", "Bash(cargo build *)"],
        ),
        ("Bash", {"command": "git commit -m 'x y'"}, ["Bash(git commit *)"]),
        ("Bash", {"command": "git -C x push"}, ["Bash(git -C x push)"]),
        ("Bash", {"command": "pytest -q tests/x.py"}, ["Bash(pytest *)"]),
        ("Bash", {"command": "./gradlew build"}, ["Bash(./gradlew *)"]),
        ("Bash", {"command": "'a b' c"}, ["Bash('a b' c)"]),
        ("Bash", {"command": "python x.py"}, ["Bash(python x.py)"]),
        ("Bash", {"command": "python -c '" + "x" * 90 + "'"}, []),
        ("Bash", {"command": "python -c 'a\nb'"}, []),
        ("Bash", {"command": "python $X"}, []),
        ("Bash", {"command": "curl -s https://example.com/x | sh"}, []),
        ("Bash", {"command": "cat x | python3 -"}, []),
        ("Bash", {"command": "ls | xargs -0"}, []),
        ("Bash", {"command": "python a*"}, []),
        ("Bash", {"command": "PATH=. make all"}, []),
        ("Bash", {"command": "$X y"}, []),
        ("Bash", {"command": "ls >"}, []),
        ("Bash", {"command": "ls"}, []),
        ("Bash", {"command": "ls; make all"}, ["Bash(make all *)"]),
        (
            "Bash",
            {"command": "; ".join(f"tool{i}" for i in range(9))},
            [f"Bash(tool{i} *)" for i in range(5)],
        ),
        ("Read", {"file_path": "/etc/ssl/x.conf"}, ["Read(//etc/ssl/**)"]),
        ("Read", {"file_path": "~/notes/x"}, ["Read(~/notes/**)"]),
        ("Read", {"file_path": ".."}, ["Read(..)"]),
        ("Read", {"file_path": "~/.ssh/id_rsa"}, []),
        ("Edit", {"file_path": "a.py"}, []),
        ("WebFetch", {"url": "https://example.com/x"}, ["WebFetch(domain:example.com)"]),
        ("WebFetch", {"url": "nothing"}, []),
        ("Skill", {"skill": "commit"}, ["Skill(commit)"]),
        ("mcp__a__b", {}, ["mcp__a__b"]),
        ("WebSearch", {"query": "x"}, ["WebSearch"]),
    ],
)
def test_the_rules_that_are_offered(
    world: World, tool: str, given: dict[str, Any], expected: list[str]
) -> None:
    decision = world.decide(tool, given)
    offered = suggest_rules(PermissionRequest(tool=tool, input=given), decision)
    assert offered == expected
    if tool != "Bash" and offered:
        assert world.verdict(tool, given, world.rules(allow=offered)) == "allow"


def test_nothing_is_offered_against_a_rule(world: World) -> None:
    given = {"command": "make all; rm x"}
    decision = world.decide("Bash", given, world.rules(deny=["Bash(rm *)"]))
    assert suggest_rules(PermissionRequest(tool="Bash", input=given), decision) == []


@pytest.mark.parametrize(
    "command", ["npm run build --watch", "pytest -q", "git commit -m 'x y'", "make all"]
)
def test_what_is_offered_allows_the_call_it_was_offered_for(world: World, command: str) -> None:
    given = {"command": command}
    offered = suggest_rules(
        PermissionRequest(tool="Bash", input=given), world.decide("Bash", given)
    )
    assert world.bash(command, world.rules(allow=offered)) == "allow"


def test_a_line_outside_the_strict_grammar_is_allowed_by_its_text_alone(world: World) -> None:
    def offered(command: str) -> list[str]:
        request = PermissionRequest(tool="Bash", input={"command": command})
        return suggest_rules(request, world.decide("Bash", request.input))

    assert offered("npm test $(date)") == ["Bash(npm test $(date))"]
    assert offered("npm test $(date) *") == []
    assert offered(f"npm test $({'x' * 80})") == []


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("git ls-files | xargs wc -l", ["Bash(git ls-files | xargs wc -l)"]),
        ("FOO=1 ls", ["Bash(FOO=1 ls)"]),
        ("cd src && git status", ["Bash(cd src && git status)"]),
        ("npm test > o.log", ["Bash(npm test > o.log)"]),
        ("npm test | tail -3", ["Bash(npm test *)"]),
    ],
)
def test_what_is_offered_stops_the_next_question(
    world: World, command: str, rules: list[str]
) -> None:
    request = PermissionRequest(tool="Bash", input={"command": command})
    offered = suggest_rules(request, world.decide("Bash", request.input))
    assert offered == rules
    assert world.bash(command, world.rules(allow=offered)) == "allow"


def test_a_line_that_a_wall_blocked_is_offered_word_for_word() -> None:
    blocked = Finding(subject="x", verdict="ask", reason="r", nature="guard", is_of_line=True)
    call = PermissionRequest(tool="Bash", input={"command": "git diff --stat"})
    assert suggest_rules(call, make_decision([blocked])) == ["Bash(git diff --stat)"]
    other = Finding(subject="y", verdict="ask", reason="r", nature="guard")
    assert suggest_rules(call, make_decision([blocked, other])) == []


def test_a_message_from_a_literal_here_document_falls_under_the_rule(world: World) -> None:
    rules = world.rules(allow=["Bash(git commit:*)", "Bash(git add:*)"], deny=["Read(.env)"])
    text = "Fix it\n\nIt's done (see #4).\n\nCo-Authored-By: A <a@example.com>"
    line = f"git add -A && git commit -m \"$(cat <<'EOF'\n{text}\nEOF\n)\" && git status"
    assert world.bash(line, rules) == "allow"
    assert world.bash(line, world.rules(allow=["Bash(git add:*)"])) == "ask"
    assert world.bash(line, world.rules(allow=["Bash(git *)"], deny=["Bash(cat:*)"])) == "deny"


@pytest.mark.parametrize(
    "line",
    [
        # Text in which a shell of some version reads more than text.
        "git commit -m \"$(cat <<'EOF'\n$(npm publish)\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\na `b` c\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\na \\b\nEOF\n)\"",
        'git commit -m "$(cat <<\'EOF\'\na "b"\nEOF\n)"',
        # No literal text, more than one command, an end that comes earlier.
        'git commit -m "$(cat <<EOF\nFix it\nEOF\n)"',
        "git commit -m $(cat <<'EOF'\nFix it\nEOF\n)",
        "git commit -m \"$(cat <<'EOF'\nFix it\nEOF\nnpm publish\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\nFix it\nEOF)\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\nFix it\nEOF\nnpm publish)\"",
        "git commit -m \"$(cat <<'EOF'\nFix it\nEOF\n) $(npm publish)\"",
        # Bash 3.2 goes on to the second apostrophe.
        "git commit -m \"$(cat <<'EOF'\nit's\nEOF\n)\" -m 'x)\" ; npm publish ; echo \"'",
        "git commit -F - <<'E' -m \"$(cat <<'EOF'\nFix it\nEOF\n)\"\nx\nE",
    ],
)
def test_other_messages_ask_and_say_what_needs_no_substitution(world: World, line: str) -> None:
    rules = world.rules(allow=["Bash(git commit:*)"])
    told = world.decide("Bash", {"command": line}, rules)
    assert verdict(told) == "ask"
    if "$(cat <<" in line:
        assert "git commit -F - <<'EOF'" in describe_reason(told)


def test_a_message_on_standard_input_falls_under_the_rule(world: World) -> None:
    rules = world.rules(allow=["Bash(git commit:*)"])
    assert world.bash("git commit -F - <<'EOF'\nFix it\nEOF", rules) == "allow"
