"""The table of programs that only read: what each option takes, and what is in no row."""

from pathlib import Path

import pytest

from clew.permissions.decision import runs_confined
from clew.permissions.programs import ROWS, read_arguments, row_of
from clew.permissions.readonly import is_reader
from clew.permissions.request import Mode
from clew.permissions.resolver import make_resolver
from clew.permissions.session_rules import program_folders
from clew.permissions.shell import split
from tests.permissions.world import World

READS = [
    # options and their values
    "head -5 a.py", "head -n5 a.py", "head -n 5 a.py", "head --lines=5 a.py", "head --lines 5 a.py",
    "ls -1", "ls -laSh --color=auto", "ls --color", "comm -12 a.py b.py", "sort -t: -k2,2n a.py",
    "grep -A2 -B 2 -n x a.py", "grep -3 x a.py", "grep x a.py --include=*.py", "cat -- a.py", "cat -",
    "ls src/*", "cat *.py", "wc -l src/*", "jq --arg x 1 . a.json", "xxd -l 16 a.py",
    "diff -U3 a.py b.py", "ls -I '*.pyc'", "tail -n +5 a.py",
    # text
    "echo $X *", "echo -n a", "seq 1 $N", "basename $X .py", "tr a-z A-Z", "printf '%s\\n' $X", "printf '%d%%n' 1",
    "printf -- '%s' a", "printf", "expr 1 + $X", "sleep 0.5", "which -a python", "exit", "exit 3",
    # tests
    "test -f a.py", "[ -d src ]", '[ -n "$X" ]', '[ "$X" = y ]', '[ "$X" ]', '[ ! -z "$X" ]', "test 1 -lt 2",
    "[ a.py -nt b.py ]", "test",
    # others
    "date +%F", "date -d yesterday", "date -Iseconds", "ps aux", "ps -ef", "ps -o pid,comm=X", "ps -p 1 --sort=-rss",
    "node -v", "java -version", "python3 -V", "/usr/bin/ls", "/bin/cat a.py", "hostname", "id -u", "uname -a",
    # find, sed, awk, jq
    "find", "find src -L -name x", "find . ! -name '*.py' -o -newermt 2020-01-01 -printf '%p'", "find -O2 . -type f",
    "sed -n -e '1,5p' -e '$p' a.py", "sed --expression=1p a.py", "sed -l 5 -n 1p a.py", "awk -v x=1 -F: '{print $1}' a.py",
    "awk '$2 > 1 || $3 >= 2 {print}' a.py", "sed -ne 1p a.py",
    "sed -E 's/[^a-z]+/_/g; s|/$||' a.py", "sed 's/[[:space:]]*$//' a.py", "sed -n '/[0-9]/,/^[]x]/p' a.py",
    "sed 's|[^/]*/||; s/\\[a\\]/b/; s/[\\t .]/c/' a.py",
    # git
    "git", "git status -sb", "git log -5 --format='%h %s' -S foo -- src", "git log -p -U5 -M90% -n 3", "git diff --stat=80",
    "git show HEAD:a.py", "git blame -L 1,2 a.py", "git branch -vv", "git branch --list 'a*'", "git branch --contains HEAD",
    "git tag -l 'v*'", "git tag -n5", "git remote", "git remote -v", "git remote get-url --all origin", "git stash list",
    "git stash show -p stash@{0}", "git worktree list --porcelain", "git reflog", "git reflog show main", "git reflog -5",
    "git notes list", "git config --get user.name", "git config get user.name", "git config -l", "git submodule status",
    "git bisect log", "git shortlog -sn", "git cat-file -p HEAD", "git grep -n foo", "cat [[:lower:]].py", "git version", "git --no-pager log",
    "git for-each-ref --format='%(refname)'", "git log -- '*.py'", "git rev-parse --show-toplevel",
]  # fmt: skip

ASKS = [
    # options in no row
    "head --lin=5 a.py", "head -x a.py", "ls --color=x --unknown", "ls -la*", "ls --col*=x", "ls --col*", "cat -- $X", "cat --foo", "grep -R x .",
    "grep -f a.py x", "grep -d recurse x .", "grep --directories=recurse x .", "tree -o x", "tree -R", "tail -f a.py",
    "sort -o x a.py", "sort *", "sort -k", "sort -S 1 a.py", "jq --arg x", "jq --slurpfile a b .", "jq -f a.py", "jq env",
    "diff -l a.py b.py", "xxd -r a.py", "xxd a.py b.py", "uniq a.py b.py", "uniq *", "file -z a.py", "file -f a.py",
    "wc --files0-from=a.py", "md5sum -c a.py", "base64 -o x", "hexdump -f a.py", "column -J", "strings @a.py", "rg --pre x y",
    "rg foo *", "rg -z x", "fd -x rm", "fd foo -X rm", "head -n $N a.py", "cat $X", "wc $X",
    # text
    "printf -v PATH x", "printf $X", "printf '%n' PATH", "printf '%5ln' PATH", "printf *", "sleep infinity", "sleep $X", "exit $X", "exit -1",
    "command ls $X", "date 0101", "date -s x", "date -f a.py", "date $X", "hostname evil", "whoami x", "ps e", "ps auxe",
    "ps -o environ", "ps -eo pid,environ",  "which --foo",
    # tests
    "[ $X ]", "[ -v x ]", "test -R x", '[ "$A" "$B" ]', '[ "$A" = b -a "$C" = d ]', '[ "$A" $B c ]', 'test "$A" -eq 1',
    '[ x"$A" ]',
    # programs
    "pytest --version", "yarn --version", "cargo --version", "rustc --version", "npm --version", "npx --version",
    "make version", "python3 version", "node version", "python --version x", "ack foo", "pr a.py", "zgrep x a.py",
    "./ls", "src/ls", "/usr/local/bin/ls", "$X", "l?", "FOO=1 ls", "PWD=/ ls", "X=1", "PWD=/etc", "export FOO=1",
    "declare -a v=x", "readonly x", "typeset x", "local x", "read x", "unset PATH", "alias ls=rm", "env", "printenv",
    "xargs echo", "xargs -0 ls", "env ls", "sh -c ls", "bash -c 'ls -l'", "eval ls", "timeout $X ls", "timeout 5 $X ls",
    "nice -* ls", "coproc ls", "exec ls",
    # find, sed, awk
    "find . -exec ls {} +", "find . -exec", "find . -delete", "find . -name", "find . -name * -print", "find . -newerXY a", "find . -type f src",
    "find . -files0-from x", "find -D exec .", "find $X", "sed -i 1p a.py", "sed -l 1p '1e X'", "sed -f x a.py", "sed '1e X' a.py",
    "sed -l '1w x' p", "sed --line-length='1w x' p a.py", "sed", "sed *", "sed 1p*", "awk", "awk 'BEGIN{ARGV[1]=\"x\"}'", "awk '{print > \"x\"}'",  "awk -f x", "awk *",
    "awk '{a = $1 | \"x\"}'", "awk 'BEGIN{system(\"x\")}'",
    # a delimiter in brackets, where versions of sed differ
    "sed 's/[/]/x/' a.py", "sed 's|[|]|;s|w x|y|' a.py", "sed '/[/s/]/w x/p' a.py", "sed 's/[]/]/;s/w x/y/' a.py", "sed 's/[^]/]/;s/w x/y/' a.py",
    "sed 's/[\\]/]x/;s/w x/y/' a.py", "sed 's/[[:alpha:]/]/;s/w x/y/' a.py", "sed 's/[[.].]/]/;s/w x/y/' a.py", "sed 'y/[/]/;s/w x/y/' a.py", "sed 's/[/x/' a.py",
    # letters that are no version, or not in every version
    "zsh -V", "bash -V", "make -V", "gcc -V", "base64 -i a.py",
    # git
    "git foo", "git -C src log", "git -c a=b log", "git log --outp=x", "git log --stdin", "git log $X", "git log *",
    "git diff --no-index a b", "git grep --untracked x", "git grep -O x", "git cat-file --batch", "git log --format=%G?",
    "git log --pretty=format:%GS", "git shortlog --group=format:%GS", "git shortlog --group format:%GK", "git log --diff-merges=remerge",
    "git log --diff-merges r", "git show --diff-merges=r",
    "git for-each-ref --format='%(signature)'", "git branch x", "git branch --sort=x y",
    "git branch --format=x y", "git branch -a x", "git branch -l x", "git tag x", "git tag --sort=x y", "git remote -v add a b",
    "git remote add a b", "git remote update", "git remote show origin", "git stash", "git stash pop", "git worktree add x",
    "git reflog expire", "git reflog -5 expire", "git notes add", "git config a.b c", "git config --get a b c", "git config",
    "git config --unset a", "git submodule update", "git bisect log x", "git bisect run x", "git merge-tree a b", "cd src && git log",
    "git status --foo", "git help log",
]  # fmt: skip


@pytest.mark.parametrize("command", READS)
def test_what_only_reads_runs_unasked(world: World, command: str) -> None:
    if command == "git":
        assert world.bash(command) == "ask"
    else:
        assert world.bash(command) == "allow"


@pytest.mark.parametrize("command", ASKS)
def test_what_is_in_no_row_asks(world: World, command: str) -> None:
    assert world.bash(command) == "ask"
    assert world.bash(command, world.rules(), "acceptEdits") == "ask"
    assert world.bash(command, world.rules(), "plan") in ("ask", "deny")


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_row_is_read_and_knows_an_unknown_option(name: str) -> None:
    row = row_of(name)
    assert row is not None
    words = split(f"x --no-such-option {name}").commands[0].words[1:]
    assert (read_arguments(row, words) is not None) is row.is_free


@pytest.mark.parametrize(
    ("command", "rule", "expected"),
    [
        ("grep -R x src", "Bash(grep *)", "ask"),
        ("grep --unheard-of x src", "Bash(grep *)", "allow"),
        ("sort --output=x a.py", "Bash(sort *)", "ask"),
        ("sort --out=x a.py", "Bash(sort *)", "ask"),
        ("sort -no x a.py", "Bash(sort *)", "ask"),
        ("sort -- a.py", "Bash(sort *)", "allow"),
        ("uniq a.py b.py", "Bash(uniq *)", "ask"),
        ("uniq --foo a.py b.py", "Bash(uniq *)", "ask"),
        ("uniq -f 1 a.py", "Bash(uniq *)", "allow"),
        ("uniq -c", "Bash(uniq *)", "allow"),
        ("uniq - out", "Bash(uniq *)", "ask"),
        ("uniq $X", "Bash(uniq *)", "ask"),
        ("grep -r key ~", "Bash(grep *)", "ask"),
        ("grep -r key /", "Bash(grep *)", "ask"),
        ("rg key ~/.config", "Bash(rg *)", "ask"),
        ("cat ~/.config/*/*", "Bash(cat *)", "ask"),
        ("cat ~/.config/*/hosts.yml", "Bash(cat *)", "ask"),
        ("cat ~/notes/*", "Bash(cat *)", "allow"),
        ("grep -r key ~/src", "Bash(grep *)", "allow"),
        ("head /proc/1/mem", "Bash(head *)", "ask"),
        ("cat /proc/1/root/etc/passwd", "Bash(cat *)", "ask"),
        ("cat /proc/self/status", "Bash(cat *)", "allow"),
        ("xxd -revert a.py", "Bash(xxd *)", "ask"),
        ("find . -delete", "Bash(find *)", "ask"),
        ("git log --output=x", "Bash(git log *)", "ask"),
        ("git log --unheard-of", "Bash(git log *)", "allow"),
        ("git log $X", "Bash(git log *)", "ask"),
        ("git log HEAD~1..$X", "Bash(git log *)", "allow"),
        ("git log *", "Bash(git log *)", "ask"),
        ("git grep -On x", "Bash(git grep *)", "ask"),
        ("git log --format=%G?", "Bash(git log *)", "ask"),
        ("git shortlog --group format:%GS", "Bash(git shortlog *)", "ask"),
        ("git for-each-ref --format '%(signature)'", "Bash(git for-each-ref *)", "ask"),
        ("git log --grep signature", "Bash(git log *)", "allow"),
        ("git log --diff-merges=remerge", "Bash(git log *)", "ask"),
        ("git log --diff-merges r -p", "Bash(git log *)", "ask"),
        ("git log --diff-merges first-parent r", "Bash(git log *)", "allow"),
        ("git -c a=b log", "Bash(git *)", "ask"),
        ("git branch x", "Bash(git branch *)", "allow"),
        ("xargs git log", "Bash(git log *)", "ask"),
        ("xargs git log", "Bash(xargs *)", "ask"),
        ("xargs git log", "Bash(xargs git log *)", "ask"),
        ("xargs cat", "Bash(cat *)", "ask"),
        ("echo $API_KEY", "Bash(echo *)", "ask"),
        ("npm run x -- $Y", "Bash(npm run *)", "allow"),
        ("bash -c 'npm test'", "Bash(npm test *)", "ask"),
    ],
)
def test_a_rule_for_a_reader_covers_reading(
    world: World, command: str, rule: str, expected: str
) -> None:
    assert world.bash(command, world.rules(allow=[rule])) == expected


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("git log", "look"),
        ("git log --unheard-of", "look"),
        ("ls", "look"),
        ("timeout 5 ls", "look"),
        ("npm test", "unknown"),
    ],
)
def test_a_reader_that_a_rule_names_still_only_looks(
    world: World, command: str, effect: str
) -> None:
    rules = world.rules(allow=["Bash(git log *)", "Bash(npm test *)"])
    decision = world.decide("Bash", {"command": command}, rules)
    assert {f.effect for f in decision.findings} == {effect}


DENY = ["Read(./.env)", "Read(./secrets/**)"]


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "command",
    [
        "grep -d recurse x .", "grep --directories=recurse x", "grep -R x .", "grep -r x",
        "diff src secrets", "diff . src", "strings @.env", "awk 1 -f .env", "awk 1 -F .env", "git show :0:.env",
        "git show HEAD:.env", "git show :.env", "git cat-file --batch", "git cat-file -p HEAD:./.env",
        "git log -L1,2:.env", "git log -L 1,2:.env", "git log -L:fn:.env", "git diff --no-index a.py .env",
        "git grep --no-index x", "git grep --untracked x", "git diff -- '.en[v]'", "git log -p -- ':(top).env'",
        "git diff ':/.env'", "git show 'HEAD:.en?'", "find -O3 secrets -type f -newer .env", "cat .e*",
        "[ -s .env ]", "test .env -nt a.py", "cat < .env", "rg x", "ls && cat ./.env", "cat src/../.env",
        "grep */key x", "grep secrets/* a.py", "cat .[[:alpha:]]nv", "cat .e[^[:digit:]]v", "cat .[]e[:space:]]nv", "git grep x", "git grep x HEAD",
        "git --no-pager grep -n x | head", "xargs -a .env", "xargs -n1 -a.env",
        "head -n1 secrets/key", "cut -c1- .env", "date -f .env", "wc --files0-from=.env", "du -X .env",
    ],
)  # fmt: skip
def test_a_denied_file_does_not_come_out(world: World, command: str) -> None:
    readers = [f"Bash({name} *)" for name in ("grep", "diff", "git", "awk", "find", "wc", "xargs")]
    assert world.bash(command, world.rules(deny=DENY)) in ("ask", "deny")
    assert world.bash(command, world.rules(deny=DENY, allow=readers)) in ("ask", "deny")


@pytest.mark.parametrize(
    "command", ["find -O3 /etc -type f", "find -D x /etc", "find -L /etc -name x"]
)
def test_folders_of_find_are_found_after_its_options(world: World, command: str) -> None:
    assert world.bash(command) == "ask"
    assert "/etc" in str(world.decide("Bash", {"command": command}).findings)


@pytest.mark.parametrize(
    "command",
    ["git diff -- '*.py'", "git log -L 1,2:a.py", "git show HEAD:a.py", "git diff ':(top)src'"],
)
def test_paths_of_git_that_are_not_denied_are_read(world: World, command: str) -> None:
    assert world.bash(command) == "allow"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py | head -3", "allow"),
        ("grep x a.py", "ask"),
        ("git status", "ask"),
        ("find .", "ask"),
        ("sort a.py", "ask"),
        ("npm test", "allow"),
    ],
)
def test_without_a_wall_only_a_short_list_runs_unasked(
    world: World, command: str, expected: str
) -> None:
    rules = world.rules(allow=["Bash(npm test *)"])
    assert world.bash(command, rules, has_walls=False) == expected


def test_files_are_not_moved_unasked_where_no_wall_holds(world: World) -> None:
    assert world.bash("mkdir new", world.rules(), "acceptEdits") == "allow"
    assert world.bash("mkdir new", world.rules(), "acceptEdits", has_walls=False) == "ask"
    assert world.bash("echo x > new", world.rules(), "acceptEdits", has_walls=False) == "ask"
    assert world.bash("echo x > new", world.rules(), "acceptEdits") == "allow"
    edit = {"file_path": "a.py", "old_string": "x", "new_string": "y"}
    assert world.verdict("Edit", edit, world.rules(), "acceptEdits", has_walls=False) == "allow"


def test_a_program_is_known_as_a_reader_by_its_name() -> None:
    def reader(line: str) -> bool:
        return is_reader(split(line).commands[0])

    assert reader("git log")
    assert reader("cat --foo")
    assert not reader("git push")
    assert not reader("npm test")


def test_what_perl_changes_in_place_is_written(world: World) -> None:
    rules = world.rules(allow=["Bash"])
    assert world.bash("perl -pi -e s/a/b/ a.py", rules) == "allow"
    assert world.bash("perl -pi -e s/a/b/ .git/config", rules) == "ask"
    denied = world.rules(allow=["Bash"], deny=["Read(.env)"])
    assert world.bash("xargs zgrep x", denied) == "ask"


@pytest.mark.parametrize("rule", ["Bash(git status *)", "Bash(git:*)"])
def test_git_asks_where_an_untrusted_repository_names_programs(world: World, rule: str) -> None:
    named = {"git_programs": ("core.fsmonitor",)}
    for command in ("git status", "ls && git log", "/usr/bin/git diff"):
        assert world.bash(command, **named) == "ask"
        assert world.bash(command, world.rules(allow=[rule]), **named) == "ask"
        assert world.bash(command, world.rules(allow=["Bash"]), **named) == "allow"
        assert world.bash(command, world.rules(), "bypassPermissions", **named) == "allow"
    assert world.bash("ls", **named) == "allow"
    decision = world.decide("Bash", {"command": "git status"}, **named)
    assert "core.fsmonitor" in str(decision.findings)


def test_a_rule_for_files_does_not_take_the_wall_away_from_commands(world: World) -> None:
    for allowed in ("Read", "Edit", "Read(a.py)", "Read(//**)", "Edit(a.py)"):
        rules = world.rules(allow=[allowed])
        for line in (
            "cat a.py",
            "wc -l < a.py",
            "grep -n x a.py | head",
            "cat a.py; ls 2>/dev/null",
        ):
            assert runs_confined(world.decide("Bash", {"command": line}, rules)), (allowed, line)
    rules = world.rules(allow=["Read", "Bash(cat a.py)"])
    assert not runs_confined(world.decide("Bash", {"command": "cat a.py"}, rules))


def test_only_what_no_user_allowed_runs_confined(world: World) -> None:
    def confined(command: str, rule: str = "Read", mode: Mode = "default") -> bool:
        rules = world.rules(allow=[rule])
        return runs_confined(world.decide("Bash", {"command": command}, rules, mode))

    assert confined("ls | head -3")
    assert confined("git log", "Bash(git log:*)")
    assert confined("git log --unheard-of", "Bash(git log:*)")
    assert confined("ls", mode="plan")
    assert not confined("ls && npm test", "Bash(npm test:*)")
    assert not confined("ls", "Bash")
    assert not confined("ls", "Bash(*)")
    assert not confined("ls -l", "Bash(ls -l)")
    assert not confined("ls > out", "Edit(out)")
    assert not confined("rm x")
    assert not confined("ls", mode="bypassPermissions")


@pytest.mark.parametrize(
    ("command", "allow"),
    [
        ('"make "*/x', ["Bash(make *)"]),
        ("$X test", ["Bash(npm *)", "Bash(* test)"]),
        ("uniq src/*", []),
        ("xxd src/*", []),
        ("uniq -f 1* a.py", []),
        ("test -? 'a[x]'", []),
        ("sort $PWD", []),
        ("cat $PWD/a.py", []),
        ("git diff -U --output x", []),
        ("git log --format --output x", []),
        ("git rev-list -L --output x HEAD", []),
        ("git blame --abbrev --output a.py", []),
        ("git log --help", []),
        ("git log --format=%+GS", []),
        ("tree -Lo 1 x", []),
        ("tree -aL 2", []),
        ("LC_ALL=zh_CN.gbk ls", []),
        ("LANGUAGE=../x ls", []),
        ("LANG=ja_JP.SJIS; ls", []),
        ('echo "あ\\" x"', []),
        ("awk --assign x '{print}' a.py", []),
        ("gawk 'BEGIN{SYMTAB[\"x\"]=1}'", []),
        ("jq -n '$ ENV'", []),
        ("ps aux -e", []),
        ("ps -x -e", []),
        ("strings -n @a a.py", []),
        ("grep a* a.py", []),
        ("head -n 1* a.py", []),
        ("wc *", []),
        ("grep x *", []),
        ("ag x", []),
        ("xxd a.py -e", []),
        ("xxd - -a", ["Bash(xxd *)"]),
        ("git diff -*", ["Bash(git diff *)"]),
        ("git log --remerge-diff", ["Bash(git log *)"]),
        ("git grep --help", ["Bash(git grep *)"]),
        ("git ls-files --eol", []),
        ("grep [-]d rec .", []),
        ("grep */key x", []),
        ("cat /proc/$PPID/environ", ["Read", "Bash(cat *)"]),
        ('cat "/proc/$PPID/environ"', ["Read", "Bash(cat *)"]),
        ("cat /proc/self/mem", ["Read", "Bash(cat *)"]),
        ("cat /proc/kcore", ["Read", "Bash(cat *)"]),
        ("head /proc/kmsg", ["Read", "Bash(head *)"]),
        ("cat /dev/tty", ["Read", "Bash(cat *)"]),
        ("echo x > /dev/tty", ["Bash(echo *)"]),
        ("diff src lib", []),
        ('cat .["!"e]nv', []),
        ("cat .[x'y']nv", []),
        ("grep --rege=. ~/.ssh/id_rsa", ["Bash(grep *)"]),
        ("xargs --arg-file ~/.ssh/id_rsa", ["Bash(xargs *)"]),
    ],
)
def test_what_an_attack_found_asks(world: World, command: str, allow: list[str]) -> None:
    assert world.bash(command, world.rules(allow=allow)) == "ask"


@pytest.mark.parametrize(
    "command",
    ["LC_ALL=C ls", "LANG=en_US.UTF-8 ls", "LC_ALL='C.utf8' sort a.py", "wc -l *.py", "grep x *.py", "ps aux --sort=-rss",
     "diff a.py b.py", "diff --no-dereference src lib", 'cat "$PWD/a.py"', "echo $HOME", "git log -n 3 --skip 2", "head -n -1 a.py"],
)  # fmt: skip
def test_what_is_near_to_it_still_runs(world: World, command: str) -> None:
    assert world.bash(command) == "allow"


@pytest.mark.parametrize(
    "command",
    ["grep -rC2 KEY .", "grep -rne. .", "git commit --allow-empty -aF.env", "make -npf.env", "xargs --arg-file .env",
     "cat secrets/../.env", "git cat-file -p :.env"],
)  # fmt: skip
def test_bundled_letters_hide_no_denied_file(world: World, command: str) -> None:
    rules = world.rules(deny=DENY, allow=["Bash(git *)", "Bash(make *)", "Bash(xargs *)"])
    assert world.bash(command, rules) in ("ask", "deny")


@pytest.mark.parametrize(
    "command",
    ["timeout -vk 1 5 curl x", "env -iu X curl x", "exec -ca n curl x", "ionice -tc 2 curl x", "script -qc 'curl x'",
     "prlimit curl x", "setpriv curl x", "choom -n 1 curl x", "linux64 curl x", "ssh-agent curl x", "faketime 1 curl x",
     "awk 'BEGIN{system(\"curl x\")}'", "/usr/lib/git-core/git-push x"],
)  # fmt: skip
def test_a_denied_command_is_not_started_by_another(world: World, command: str) -> None:
    rules = world.rules(allow=["Bash"], deny=["Bash(curl *)", "Bash(git push *)"])
    assert world.bash(command, rules) in ("ask", "deny")
    assert world.bash("make test", rules) == "allow"
    assert world.bash("git log", rules) == "allow"


def test_only_ordinary_files_are_moved_unasked(world: World) -> None:
    (world.cwd / "src" / "leads").symlink_to(world.cwd / ".git" / "config")
    for command in (
        "cp a.py c.py",
        "mv a.py src/",
        "cp -p a.py src/c.py",
        "mkdir -p x/y",
        "touch new",
    ):
        assert world.bash(command, world.rules(), "acceptEdits") == "allow", command
    for command in (
        "cp -r src lib", "cp -a src/. .", "mv src lib", "mv src/leads l2", "cp *", "cp a.py $X", "mv src/leads x && cat x",
        "cp --target-directory=.git a.py", "X=1 cp a.py b", "cp missing b",
    ):  # fmt: skip
        assert world.bash(command, world.rules(), "acceptEdits") == "ask", command


def test_a_program_of_the_project_asks_whatever_its_name(world: World) -> None:
    (world.cwd / "bin").mkdir()
    (world.cwd / "bin" / "ls").write_text("x", "utf-8")
    (world.cwd / "bin" / "python3").symlink_to(world.home.parent / "python3.11")
    (world.cwd / "bin" / "rg").symlink_to("/bin/sh")
    (world.cwd / "bin" / "timeout").write_text("x", "utf-8")
    (world.home.parent / "python3.11").write_text("x", "utf-8")
    folders = {"program_folders": (str(world.cwd / "bin"),)}
    assert world.bash("ls", **folders) == "ask"
    assert world.bash("rg x", **folders) == "ask"
    assert world.bash("timeout 5 cat a.py", **folders) == "ask"
    assert world.bash("cat a.py", **folders) == "allow"
    assert world.bash("echo a", **folders) == "allow"
    assert world.bash("/bin/ls", **folders) == "allow"
    assert world.bash("python3 --version", **folders) == "allow"
    assert world.bash("mkdir made", mode="acceptEdits", **folders) == "allow"
    (world.cwd / "bin" / "mkdir").write_text("x", "utf-8")
    assert world.bash("mkdir made", mode="acceptEdits", **folders) == "ask"


def test_a_relative_folder_of_path_is_looked_up_where_the_command_runs(world: World) -> None:
    (world.cwd / "tools").mkdir()
    (world.cwd / "tools" / "wc").write_text("x", "utf-8")
    folders = {"program_folders": (".",)}
    assert world.bash("wc a.py", **folders) == "allow"
    assert world.bash("cd tools && wc ../a.py", **folders) == "ask"
    assert world.bash("cd - && wc a.py", **folders) == "ask"
    assert world.bash("cd tools && wc ../a.py") == "allow"


def test_the_folders_of_path_that_count_are_those_of_the_workspace(tmp_path: Path) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here / "bin", other):
        folder.mkdir(parents=True)
    (tmp_path / "way").symlink_to(here / "bin")
    path = f"/usr/bin:{here}/bin:{tmp_path}/way:{other}:{tmp_path}:.:"
    found = program_folders({"PATH": path}, str(here), str(other))
    assert found == (f"{here}/bin", str(other), ".", str(here))
    assert program_folders({}, str(here)) == ()


def test_a_rule_for_exactly_a_line_counts_in_any_order(world: World) -> None:
    line = 'echo "$(date)"'
    for rules in (["Bash(echo *)", f"Bash({line})"], [f"Bash({line})", "Bash(echo *)"]):
        assert world.bash(line, world.rules(allow=rules)) == "allow"


@pytest.mark.parametrize("rule", ["Bash(python3 *)", "Bash(python3 - <<'X'⏎print(1)⏎X)"])
def test_a_program_from_the_input_is_read(world: World, rule: str) -> None:
    command = "python3 - <<'X'\nprint(1)\nX"
    assert world.bash(command, world.rules(allow=[rule.replace("⏎", "\n")])) == "allow"


def test_what_reads_its_folder_asks_where_the_shell_has_left_the_workspace(world: World) -> None:
    before, here = world.resolve, str(world.cwd)
    lines = (
        "ls", "ls -la", "tree", "du -sh", "fd x", "find", "find . -name x", "rg x", "grep -r x",
        "git log", "git log -p", "git status", "git -P show", "true; ls", "ls | head", "cat x",
    )  # fmt: skip
    known = (f"ls {here}", f"cat {here}/a.py", f"tree {here}", f"fd x {here}", "pwd", "echo x")
    try:
        for folder in (world.home, world.cwd.parent):
            world.resolve = make_resolver(cwd=str(folder), home=str(world.home))
            assert [line for line in lines if world.bash(line) != "ask"] == []
            assert [line for line in known if world.bash(line) != "allow"] == []
            assert world.bash("git log", world.rules(allow=["Bash(git log:*)"])) == "allow"
        world.resolve = make_resolver(cwd=f"{here}/src", home=str(world.home))
        assert [line for line in (*lines, *known) if world.bash(line) != "allow"] == []
    finally:
        world.resolve = before
