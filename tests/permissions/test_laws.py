"""Laws of decisions, over generated rules and calls."""

import re

import pathspec
from hypothesis import example, given
from hypothesis import strategies as st

from clew.permissions.decision import ORDER, verdict
from clew.permissions.index import place
from clew.permissions.patterns import make_path_regex, may_meet
from clew.permissions.request import Mode
from tests.permissions.world import World

WORDS = ["ls", "cat", "rm", "git", "log", "push", "npm", "test", "a.py", ".env", "src/a.py", "-f"]
simple = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
wrapped = st.tuples(
    st.sampled_from(["{}", "timeout 5 {}", "env {}", "sudo {}", "xargs {}", "( {} )", "time {}"]),
    simple,
).map(lambda pair: pair[0].format(pair[1]))
joints = st.sampled_from([" && ", "; ", " | ", " || ", " & ", "\n"])
commands = st.lists(st.tuples(wrapped, joints), min_size=1, max_size=3).map(
    lambda parts: "".join(c + j for c, j in parts[:-1]) + parts[-1][0]
)
heads = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
rule = st.one_of(
    st.tuples(heads, st.sampled_from(["", " *", ":*", "*"])).map(lambda p: f"Bash({p[0]}{p[1]})"),
    st.sampled_from(
        [
            "Bash",
            "Read",
            "Edit",
            "Read(.env)",
            "Read(src/**)",
            "Edit(*.py)",
            "Edit(./src/**)",
            "Read(//**/a.py)",
            "Read(~/.ssh/**)",
        ]
    ),
)
rules = st.fixed_dictionaries(
    {name: st.lists(rule, max_size=4) for name in ("allow", "ask", "deny")}
)
calls = st.one_of(
    commands.map(lambda c: ("Bash", {"command": c})),
    st.sampled_from(
        [("Read", ".env"), ("Edit", "src/a.py"), ("Write", "a.py"), ("Grep", "src")]
    ).map(lambda p: (p[0], {"path" if p[0] == "Grep" else "file_path": p[1]})),
)
modes: st.SearchStrategy[Mode] = st.sampled_from(
    ["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]
)


@given(call=calls, lists=rules, more=rule, mode=modes)
def test_one_more_deny_rule_never_lets_more_through(
    world: World,
    call: tuple[str, dict[str, str]],
    lists: dict[str, list[str]],
    more: str,
    mode: Mode,
) -> None:
    before = world.verdict(*call, world.rules(**lists), mode)
    stricter = {**lists, "deny": [*lists["deny"], more]}
    after = world.verdict(*call, world.rules(**stricter), mode)
    assert order(after) >= order(before)


@given(call=calls, lists=rules, more=rule, mode=modes)
def test_one_more_ask_rule_never_lets_more_through(
    world: World,
    call: tuple[str, dict[str, str]],
    lists: dict[str, list[str]],
    more: str,
    mode: Mode,
) -> None:
    before = world.verdict(*call, world.rules(**lists), mode)
    after = world.verdict(*call, world.rules(**{**lists, "ask": [*lists["ask"], more]}), mode)
    assert order(after) >= order(before)


@example(
    call=("Bash", {"command": "timeout 5 ls"}),
    lists={"allow": [], "ask": [], "deny": []},
    more="Bash",
    mode="plan",
)
@given(call=calls, lists=rules, more=rule, mode=modes)
def test_one_more_allow_rule_never_overrides_a_deny(
    world: World,
    call: tuple[str, dict[str, str]],
    lists: dict[str, list[str]],
    more: str,
    mode: Mode,
) -> None:
    decision = world.decide(*call, world.rules(**lists), mode)
    denied = [f for f in decision.findings if f.verdict == "deny" and f.rule is not None]
    looser = {**lists, "allow": [*lists["allow"], more]}
    after = world.verdict(*call, world.rules(**looser), mode)
    if denied:
        assert after == "deny"
    assert order(after) <= order(verdict(decision))


@given(
    left=wrapped,
    right=wrapped,
    joint=st.sampled_from([" && ", "; ", " | ", " || ", " & ", "\n"]),
    lists=rules,
    mode=modes,
)
def test_a_compound_is_never_weaker_than_its_strictest_part(
    world: World, left: str, right: str, joint: str, lists: dict[str, list[str]], mode: Mode
) -> None:
    held = world.rules(**lists)
    parts = [world.bash(left, held, mode), world.bash(right, held, mode)]
    for whole in (
        f"{left}{joint}{right}",
        f"( {left} ){joint}{{ {right}\n}}",
        f"if {left}; then {right}\nfi",
    ):
        assert order(world.bash(whole, held, mode)) >= max(map(order, parts)), whole


@given(
    steps=st.lists(
        st.sampled_from(["./", "src/../", "deep/er/../../", "/", "link-to-home/../work/"]),
        max_size=4,
    ),
    target=st.sampled_from([".env", "secrets/key", "link-to-env", "link-to-secrets/key"]),
    tail=st.sampled_from(["", "/", "/."]),
)
def test_an_alias_of_a_denied_path_is_denied(
    world: World, steps: list[str], target: str, tail: str
) -> None:
    held = world.rules(allow=["Read", "Bash"], deny=["Read(./.env)", "Read(./secrets/**)"])
    path = "./" + "".join(steps).replace("//", "/./") + target + tail
    assert world.verdict("Read", {"file_path": path}, held) == "deny"
    assert world.bash(f"cat {path}", held) == "deny"
    assert world.bash(f"sort < {path}", held) == "deny"


def order(found: str) -> int:
    named: dict[str, int] = {str(name): rank for name, rank in ORDER.items()}
    return named[found]


segment = st.text(alphabet="ab.*?[]!-", min_size=1, max_size=4).filter(
    lambda s: (
        s not in (".", "..") and s[0] != "!" and "**" not in s and s.count("[") < 2 and s != "*"
    )
)
pattern = st.lists(
    st.one_of(segment, st.just("**"), st.sampled_from(["a", "b"])), min_size=1, max_size=3
)
paths = st.lists(st.text(alphabet="ab.-!]", min_size=1, max_size=3), min_size=1, max_size=4).filter(
    lambda parts: all(p not in (".", "..") for p in parts)
)


@given(parts=pattern, path=paths)
def test_path_patterns_mean_what_gitignore_says(parts: list[str], path: list[str]) -> None:
    text = "/".join(parts)
    try:
        theirs = pathspec.GitIgnoreSpec.from_lines([text])
    except ValueError:
        return
    base, anchored, segments = place(text, root="/r", cwd="/c", home="/h")
    floating = not anchored and len(segments) == 1
    if segments[:1] == ("**",) and len(segments) > 1:
        floating, segments = True, segments[1:]
    ours = re.fullmatch(
        make_path_regex(base, segments, floating=floating, itself=False), "/c/" + "/".join(path)
    )
    assert (ours is not None) == theirs.match_file("/".join(path))


@given(left=pattern, right=pattern, path=paths)
def test_patterns_that_name_one_path_are_known_to_meet(
    left: list[str], right: list[str], path: list[str]
) -> None:
    def names(parts: list[str]) -> bool:
        source = make_path_regex("", tuple(parts), floating=False, itself=True)
        return re.fullmatch(source, "/" + "/".join(path), re.S) is not None

    hidden = any(p.startswith(".") for p in path)
    if names(left) and names(right) and not hidden:
        assert may_meet((*left, "**"), (*right, "**"))
