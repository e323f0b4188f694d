"""A deny rule next to a rule that allows every command, and in the mode that allows everything."""

from pathlib import Path

import pytest

from clew.permissions.request import HeldByGit
from tests.permissions.world import World

DENIED = ["Read(.env)", "Bash(git push *)", "Bash(npm publish *)", "Bash(kubectl delete *)"]

LINES = """
date -f .env
date --file=.env
date -uf .env
find -files0-from .env
find src -files0-from .env
echo HEAD:.env | xargs -n1 git cat-file -p
git ls-files | xargs -n1 git blame
git hash-object -w --stdin-paths <<< .env
git add --pathspec-from-file=names
sed 'r.env' a.py
sed -n '1R.env' a.py
sed '$r.env' a.py
sed 's/x/y/w.env' a.py
git config --blob=HEAD:.env --list
git -c include.path=.env status
git -c include.path=$PWD/.env status
git -c alias.x='!cat .env' x
git submodule foreach 'cat .env'
git rebase -x 'cat .env' HEAD
GIT_CONFIG_GLOBAL=.env git status
GIT_CONFIG=./.env git config -l
GIT_CONFIG_SYSTEM=$PWD/.env git status
GIT_CONFIG="$PWD/.env" git config -l
env GIT_CONFIG=.env git config -l
BASH_ENV=.env bash -c :
git archive HEAD
git fast-export HEAD
git format-patch --stdout -1
git bundle create x HEAD
git difftool HEAD~1
git worktree add ../x
git clone . ../x
git clone -q file:///x y
git $X origin
git -C . $X
git p{,}ush
git pus*
npm $X
npm --silent publish
npm --prefix . publish
npm -s --tag x publish now
kubectl -n prod delete pod x
python3 -c 'import os; os.system("git push")'
python3 -c 'import subprocess; subprocess.run(["git", "push"])'
node -e 'require("child_process").execSync("npm publish")'
awk 'BEGIN { system("git push") }'
""".strip().split("\n")

OTHERS = """
date -u
git status
git commit -m "remove .env" -- a.py
git worktree list
git clone https://example.com/x.git
git clone git@example.com:x.git
npm --silent run publish-docs
npm run build -- publish
kubectl -n prod get pods
kubectl get pods
git -C src status
git rev-parse HEAD
DEBUG=1 npm run build
MODE=./a.py npm run build
sed 's/x/y/' a.py
python3 -c 'print("git status")'
ls -- *.py
ls -d -- *.py
""".strip().split("\n")


@pytest.fixture
def kept(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.held_by_git = HeldByGit(is_known=True, top=str(world.cwd), paths=(".env",))
    return world


@pytest.mark.parametrize("line", LINES)
def test_a_denied_file_or_command_under_another_spelling_does_not_run(
    kept: World, line: str
) -> None:
    for allowed, mode in ((["Bash"], "default"), ([], "bypassPermissions")):
        rules = kept.rules(allow=allowed, deny=DENIED)
        assert kept.bash(line, rules, mode) in ("ask", "deny")


@pytest.mark.parametrize("line", OTHERS)
def test_what_no_rule_denies_runs_next_to_them(kept: World, line: str) -> None:
    assert kept.bash(line, kept.rules(allow=["Bash"], deny=DENIED)) == "allow"


def test_a_word_that_is_not_known_yet_runs_where_no_rule_restrains_it(world: World) -> None:
    rules = world.rules(allow=["Bash"], deny=["Bash(npm publish *)", "Bash(git * main)"])
    assert world.bash("git $X", rules) == "allow"
    assert world.bash("npm run $X", rules) == "allow"
    assert world.bash("npm run *.py", rules) == "allow"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python='touch x;' make check", "ask"),
        ("DEBUG='$(shell touch x)' make check", "ask"),
        ("CI='`touch x`' make check", "ask"),
        ("shell=1 timeout 5 make check", "ask"),
        ("env python=x make check", "ask"),
        ("yarn_script_shell=./x yarn test", "ask"),
        ("DEBUG=1 make check", "allow"),
        ("CI=true NODE_ENV=test timeout 5 yarn test", "allow"),
        ("LC_ALL='C.UTF-8' make check", "allow"),
        ("x=1 cat a.py", "allow"),
        ("x='$(a)'; cat a.py", "allow"),
        ("python=pypy make test", "allow"),
    ],
)
def test_a_rule_for_a_program_does_not_hold_for_variables_that_the_program_may_heed(
    world: World, line: str, expected: str
) -> None:
    names = ["make check", "yarn test", "python=pypy make test"]
    rules = world.rules(allow=[f"Bash({name}:*)" for name in names])
    assert world.bash(line, rules) == expected
