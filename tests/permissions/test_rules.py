"""The syntax of rules, and the documented examples of the ecosystem, unchanged."""

import pytest
from msgspec import structs

from clew.permissions.index import MAX_FOLDERS, PathIndex
from clew.permissions.rules import (
    PermissionRule,
    RejectedRule,
    RuleSet,
    RuleSource,
    parse_rule,
    read_rules,
)
from clew.system.config.layers import Layer
from clew.system.config.load import decoded
from tests.permissions.world import World
from tests.requirements import requirement


def parse(text: str, behavior: str = "deny") -> PermissionRule | RejectedRule:
    kind = "deny" if behavior == "deny" else "allow"
    return parse_rule(text, kind, root="/p", source=RuleSource(scope="user"))


# rule, tool, input, whether it matches
DOCUMENTED = [
    ("Bash", "Bash", {"command": "anything at all"}, True),
    ("Bash(*)", "Bash", {"command": "anything"}, True),
    ("Bash", "Monitor", {"command": "anything"}, True),
    ("Bas*", "Monitor", {"command": "anything"}, True),
    ("Bash(npm *)", "Monitor", {"command": "npm test"}, True),
    ("Monitor", "Monitor", {"command": "anything"}, True),
    ("Monitor", "Bash", {"command": "anything"}, False),
    ("Bash(npm run build)", "Bash", {"command": "npm run build"}, True),
    ("Bash(npm run build)", "Bash", {"command": "npm run build --watch"}, False),
    ("Bash(npm run test *)", "Bash", {"command": "npm run test"}, True),
    ("Bash(npm run test *)", "Bash", {"command": "npm run test -- --watch"}, True),
    ("Bash(npm run test *)", "Bash", {"command": "npm run tests"}, False),
    ("Bash(npm run test:*)", "Bash", {"command": "npm run test -u"}, True),
    ("Bash(npm run test:*)", "Bash", {"command": "npm run test:unit"}, False),
    ("Bash(ls *)", "Bash", {"command": "lsof"}, False),
    ("Bash(ls*)", "Bash", {"command": "lsof"}, True),
    ("Bash(ls:*)", "Bash", {"command": "ls"}, True),
    ("Bash(git * main)", "Bash", {"command": "git push origin main"}, True),
    ("Bash(git * main)", "Bash", {"command": "git push origin dev"}, False),
    ("Bash(* --version)", "Bash", {"command": "foo --version"}, True),
    ("Bash(* install)", "Bash", {"command": "npm install"}, True),
    ("Bash(git:* push)", "Bash", {"command": "git push"}, False),
    ("Bash(git push *)", "Bash", {"command": "git -C . push origin"}, True),
    ("Bash(rm:*)", "Bash", {"command": "ls && rm x"}, True),
    ("Bash(timeout *)", "Bash", {"command": "timeout 5 x"}, True),
    ("Bash(run_in_background:true)", "Bash", {"command": "x", "run_in_background": True}, True),
    ("Bash(run_in_background:true)", "Bash", {"command": "x"}, False),
    ("Bash(run_in_background:true)", "Bash", {"command": "x", "run_in_background": False}, False),
    ("Read", "Read", {"file_path": "src/a.py"}, True),
    ("Read", "Grep", {"pattern": "x"}, True),
    ("Read(./.env)", "Read", {"file_path": ".env"}, True),
    ("Read(./.env)", "Read", {"file_path": "deep/er/.env"}, False),
    ("Read(.env)", "Read", {"file_path": "deep/er/.env"}, True),
    ("Read(**/.env)", "Read", {"file_path": "deep/er/.env"}, True),
    ("Read(.env)", "Read", {"file_path": "../elsewhere/.env"}, False),
    ("Read(//**/.env)", "Read", {"file_path": "../elsewhere/.env"}, True),
    ("Read(../elsewhere/**)", "Read", {"file_path": "../elsewhere/x"}, True),
    ("Read(secrets/**)", "Read", {"file_path": "lib/secrets/key"}, True),
    ("Read(./secrets/**)", "Read", {"file_path": "lib/secrets/key"}, False),
    ("Read(secrets/**)", "Grep", {"pattern": "x", "path": "secrets"}, True),
    ("Read(~/.ssh/**)", "Read", {"file_path": "~/.ssh/id_rsa"}, True),
    ("Read(~/.ssh)", "Read", {"file_path": "~/.ssh/id_rsa"}, True),
    ("Read(~/.zshrc)", "Read", {"file_path": "~/.zshrc"}, True),
    ("Read(~)", "Read", {"file_path": "~/x"}, True),
    ("Read(*.pem)", "Read", {"file_path": "deep/er/k.pem"}, True),
    ("Read(*.{pem,key})", "Read", {"file_path": "deep/er/k.key"}, True),
    ("Read(src/*.py)", "Read", {"file_path": "src/a.py"}, True),
    ("Read(src/*.py)", "Read", {"file_path": "src/x/a.py"}, False),
    ("Read([ab].py)", "Read", {"file_path": "b.py"}, True),
    ("Read(?.py)", "Read", {"file_path": "b.py"}, True),
    ("Read(?.py)", "Read", {"file_path": "bb.py"}, False),
    ("Read(.env)", "Edit", {"file_path": ".env"}, True),
    ("Read(.env)", "NotebookEdit", {"notebook_path": ".env"}, True),
    ("Edit(/src/**)", "Write", {"file_path": "src/a.py"}, True),
    ("Edit(/src/**)", "MultiEdit", {"file_path": "lib/src/a.py"}, False),
    ("Edit(/src/**)", "Read", {"file_path": "src/a.py"}, False),
    ("Edit", "Write", {"file_path": "src/a.py"}, True),
    ("Write(src/**)", "Edit", {"file_path": "src/a.py"}, True),
    ("Write", "Edit", {"file_path": "src/a.py"}, False),
    ("Glob(src/**)", "Read", {"file_path": "src/a.py"}, True),
    ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://example.com/x"}, True),
    ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://EXAMPLE.com.:443/"}, True),
    ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://api.example.com"}, False),
    ("WebFetch(domain:*.example.com)", "WebFetch", {"url": "https://a.b.example.com"}, True),
    ("WebFetch(domain:*.example.com)", "WebFetch", {"url": "https://example.com"}, False),
    ("WebFetch(domain:*.example.com)", "WebFetch", {"url": "https://evilexample.com"}, False),
    ("WebFetch(domain:example.*)", "WebFetch", {"url": "https://example.org"}, True),
    ("WebFetch(domain:example.*)", "WebFetch", {"url": "https://example.evil.com"}, False),
    ("WebFetch(domain:*)", "WebFetch", {"url": "http://anything"}, True),
    ("WebFetch", "WebFetch", {"url": "http://anything"}, True),
    ("mcp__puppeteer", "mcp__puppeteer__go", {}, True),
    ("mcp__puppeteer", "mcp__puppeteer2__go", {}, False),
    ("mcp__puppeteer__*", "mcp__puppeteer__go", {}, True),
    ("mcp__puppeteer__go", "mcp__puppeteer__go", {}, True),
    ("mcp__puppeteer__go", "mcp__puppeteer__gone", {}, False),
    ("mcp__*", "mcp__puppeteer__go", {}, True),
    ("*", "TodoWrite", {}, True),
    ("Agent(Explore)", "Agent", {"subagent_type": "Explore"}, True),
    ("Agent(Explore)", "Task", {"subagent_type": "Explore"}, True),
    ("Task(Explore)", "Agent", {"subagent_type": "Explore"}, True),
    ("Agent(Explore)", "Agent", {"subagent_type": "Plan"}, False),
    ("Agent(model:opus)", "Agent", {"subagent_type": "Plan", "model": "opus"}, True),
    ("Agent(model:*)", "Agent", {"subagent_type": "Plan"}, False),
    ("Agent(isolation:*)", "Agent", {"isolation": "worktree"}, True),
    ("Agent(my-plugin:helper)", "Agent", {"subagent_type": "my-plugin:helper"}, True),
    ("Skill(commit)", "Skill", {"skill": "commit"}, True),
    ("Skill(commit:*)", "Skill", {"skill": "commit me"}, True),
    ("Skill(commit:*)", "Skill", {"skill": "committed"}, False),
    ("Skill(plugin:commit)", "Skill", {"skill": "plugin:commit"}, True),
    ("WebSearch(query:secret*)", "WebSearch", {"query": "secret x"}, True),
]


@requirement("R143")
@pytest.mark.parametrize(("rule", "tool", "given", "matches"), DOCUMENTED)
def test_a_deny_rule_matches_what_its_documentation_says(
    world: World, rule: str, tool: str, given: dict[str, object], matches: bool
) -> None:
    assert (world.verdict(tool, given, world.rules(deny=[rule])) == "deny") is matches


@pytest.mark.parametrize(
    ("rule", "tool", "given", "matches"),
    [
        ("Bash(npm run *)", "Bash", {"command": "npm run build"}, True),
        ("Bash(npm run *)", "Bash", {"command": "npm run build && npm publish"}, False),
        ("Bash(npm test *)", "Bash", {"command": "timeout 30 npm test"}, True),
        ("Bash(npm test *)", "Bash", {"command": "NODE_ENV=x npm test"}, True),
        ("Bash(npm test *)", "Bash", {"command": "FOO=x npm test"}, False),
        ("Bash(FOO=x npm test)", "Bash", {"command": "FOO=x npm test"}, True),
        ("Bash(npm *)", "Bash", {"command": "PATH=. npm test"}, False),
        ("Bash(PATH=. npm test)", "Bash", {"command": "PATH=. npm test"}, True),
        ("Bash(PATH=. npm *)", "Bash", {"command": "PATH=. npm test"}, True),
        ("Bash(git commit *)", "Bash", {"command": "git commit -m 'a; b'"}, True),
        ("Bash(sudo apt update)", "Bash", {"command": "sudo apt update"}, True),
        ("Bash(sudo apt:*)", "Bash", {"command": "sudo apt update"}, True),
        ("Bash(sudo *)", "Bash", {"command": "sudo apt update"}, False),
        ("Bash(watch *)", "Bash", {"command": "watch rm x"}, False),
        ("Bash(find *)", "Bash", {"command": "find . -delete"}, False),
        ("Bash(grep *)", "Bash", {"command": "xargs grep x"}, False),
        ("Bash(cd src && make)", "Bash", {"command": "cd src && make"}, True),
        ("Bash(bash *)", "Bash", {"command": "bash build.sh"}, True),
        ("Bash(make *)", "Bash", {"command": "make > log"}, False),
        ("Bash", "Bash", {"command": "PATH=. make > log"}, True),
        ("Bash", "Bash", {"command": "$X y"}, True),
        ("Bash", "Bash", {"command": "rm -rf ~"}, False),
        ("Bash", "Bash", {"command": "echo x > .git/config"}, False),
        ("Read(~/notes/**)", "Read", {"file_path": "~/notes/x"}, True),
        ("Edit(~/notes/**)", "Read", {"file_path": "~/notes/x"}, True),
        ("Edit(src/**)", "Write", {"file_path": "src/x"}, True),
        ("Edit(src/**)", "Write", {"file_path": "lib/src/x"}, False),
        ("Edit(**/src/**)", "Write", {"file_path": "lib/src/x"}, True),
        ("Edit(src/**)", "Bash", {"command": "echo x > src/x"}, True),
        ("Edit(src/**)", "Write", {"file_path": "src/.git/x"}, False),
        ("Write(src/**)", "Write", {"file_path": "src/x"}, True),
        ("Write(src/**)", "Edit", {"file_path": "src/x"}, False),
        ("Write", "Write", {"file_path": "src/x"}, True),
        ("Edit", "Write", {"file_path": "src/x"}, True),
        ("Read(link-to-home/**)", "Read", {"file_path": "link-to-home/x"}, False),
        ("mcp__github__get_*", "mcp__github__get_issue", {}, True),
        ("mcp__github__get_*", "mcp__github__set_issue", {}, False),
        ("WebFetch(domain:example.com)", "WebFetch", {"url": "https://example.com"}, True),
        ("WebFetch", "WebFetch", {"url": "https://example.com"}, True),
        ("WebFetch", "WebFetch", {"url": "not an address"}, False),
        ("WebSearch", "WebSearch", {"query": "x"}, True),
        ("Skill(commit)", "Skill", {"skill": "/commit"}, True),
        ("Skill", "SlashCommand", {"command": "/commit"}, True),
    ],
)
def test_an_allow_rule_allows_what_it_says_and_no_more(
    world: World, rule: str, tool: str, given: dict[str, object], matches: bool
) -> None:
    assert (world.verdict(tool, given, world.rules(allow=[rule])) == "allow") is matches


@pytest.mark.parametrize(
    ("text", "behavior", "what"),
    [
        ("Bash(rm *", "deny", "expected Tool or Tool(content)"),
        ("", "deny", "expected Tool or Tool(content)"),
        ("*", "allow", "must name its tool"),
        ("mcp__*", "allow", "must name its tool"),
        ("mcp__*__x", "allow", "must name its tool"),
        ("B*", "allow", "must name its tool"),
        *(
            (f"WebFetch({host})", "deny", "expected WebFetch(domain:host)")
            for host in (
                "example.com",
                "domain:",
                "domain:https://example.com",
                "domain:example.com:80",
                "domain:example.com/x",
                "domain:[::1]",
            )
        ),
        ("Read(!x)", "deny", "cannot begin with !"),
        ("Bash(command:rm *)", "deny", "command can't be used as a parameter"),
        ("mcp__a__b(x)", "deny", "cannot have content"),
    ],
)
def test_a_rule_that_cannot_be_read_says_what_is_wrong(text: str, behavior: str, what: str) -> None:
    found = parse(text, behavior)
    assert isinstance(found, RejectedRule)
    assert what in found.what


def test_a_parameter_of_an_mcp_tool_can_be_named_in_a_deny_rule(world: World) -> None:
    rules = world.rules(deny=["mcp__a__b(kind:secret)"])
    assert world.verdict("mcp__a__b", {"kind": "secret"}, rules) == "deny"
    assert world.verdict("mcp__a__b", {"kind": "open"}, rules) == "ask"


SETTINGS = """{
  "permissions": {
    "allow": [
      "Bash(npm run *)",
      "Bash(git commit *)"
    ],
    "deny": ["Bash(git push *)", 7, "Read(broken"],
    "ask": "Bash"
  }
}
"""


def layer(text: str = SETTINGS, scope: str = "project") -> Layer:
    chosen = "managed" if scope == "managed" else "project"
    return decoded(chosen, "/p/.claude/settings.json", "/p", text)


def test_rules_of_a_file_know_their_line_and_what_is_lost_is_reported() -> None:
    source = layer()
    rules, unreadable, _ = read_rules([source])
    assert [(r.text, source.line(r.source.path)) for r in rules] == [
        ("Bash(git push *)", 7),
        ("Bash(npm run *)", 4),
        ("Bash(git commit *)", 5),
    ]
    assert unreadable == [
        "/p/.claude/settings.json:7: permissions.deny[1]: expected a string, got a number",
        "/p/.claude/settings.json:8: permissions.ask: expected an array of permission rules, "
        "got a string",
        "/p/.claude/settings.json:7: Read(broken: expected Tool or Tool(content)",
    ]


def test_a_restraint_that_was_lost_makes_everything_ask(world: World) -> None:
    rules, unreadable, _ = read_rules([layer()])
    anchors = world.rules().anchors
    careful = RuleSet(rules, anchors=anchors, unreadable=unreadable)
    assert world.bash("ls", careful) == "ask"
    assert world.bash("ls", careful, "bypassPermissions") == "ask"
    assert world.bash("ls", careful, "dontAsk") == "deny"
    assert world.bash("git push x", careful) == "deny"


def test_an_allow_rule_that_cannot_be_read_is_a_warning_only() -> None:
    text = '{"permissions": {"allow": ["*", "Bash(ls)"]}}'
    rules, unreadable, warnings = read_rules([layer(text)])
    assert [r.text for r in rules] == ["Bash(ls)"]
    assert unreadable == []
    assert "must name its tool" in warnings[0]


def test_what_is_said_of_a_rule_is_no_flood() -> None:
    bomb = f"Read({'{a,b}' * 5_000})"
    _, unreadable, _ = read_rules([layer(f'{{"permissions": {{"deny": ["{bomb}"]}}}}')])
    assert "more than 64 patterns" in unreadable[0]
    assert len(unreadable[0]) < 400


def test_a_broken_file_may_have_denied_anything() -> None:
    rules, unreadable, _ = read_rules([layer("{")])
    assert rules == []
    assert "invalid JSON" in unreadable[0]


def test_managed_settings_can_be_the_only_ones_whose_rules_count() -> None:
    managed = layer(
        '{"allowManagedPermissionRulesOnly": true, "permissions": {"deny": ["Bash(x)"]}}', "managed"
    )
    rules, _, _ = read_rules([layer('{"permissions": {"allow": ["Bash(y)"]}}'), managed])
    assert [r.text for r in rules] == ["Bash(x)"]


def test_a_lock_that_was_handed_keeps_what_a_user_denies() -> None:
    locked = '{"allowManagedPermissionRulesOnly": true, "permissions": {"deny": ["Bash(x)"]}}'
    handed = structs.replace(layer(locked, "managed"), is_handed=True)
    own = layer('{"permissions": {"allow": ["Bash(y)"], "deny": ["Bash(z)"], "ask": ["Bash(w)"]}}')
    rules, unreadable, _ = read_rules([own, handed])
    assert sorted(r.text for r in rules) == ["Bash(w)", "Bash(x)", "Bash(z)"]
    broken = layer('{"permissions": {"deny": ["Bash("]}}')
    assert read_rules([broken, handed])[1] != unreadable == []


def test_faults_that_restrain_nothing_do_not_make_a_set_careful() -> None:
    _, unreadable, _ = read_rules([layer('{"model": 3, "permissions": {"allow": "x"}}')])
    assert unreadable == []


def test_permissions_that_are_no_object_are_lost_as_a_whole() -> None:
    _, unreadable, _ = read_rules(
        [
            Layer(
                scope="cli",
                data={"permissions": 1},
                root="/p",
                faults=layer('{"permissions": 1}').faults,
            )
        ]
    )
    assert unreadable == ["(cli): permissions: expected an object, got a number"]


@pytest.mark.parametrize("count", [3, MAX_FOLDERS + 3])
def test_a_rule_holds_in_the_first_folder_and_in_any_later_one(count: int) -> None:
    """What was found for a folder is kept, and not without end; a later rule is found there too."""
    index = PathIndex()
    for pattern in ("secret/**", "*.key"):
        rule = parse(f"Read({pattern})")
        assert isinstance(rule, PermissionRule)
        index.add(rule, pattern, root="/p", cwd="/p", home="/h", restrains=True)
        for number in range(count):
            for name in ("secret/x", "a.key", "secret"):
                found = list(index.candidates(f"/p/d{number}/{name}"))
                assert bool(found) == ("secret" in name or pattern == "*.key"), name
