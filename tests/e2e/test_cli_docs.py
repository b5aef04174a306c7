# SPDX-License-Identifier: BSD-2-Clause
"""The manual pages and the completion: generated from the tables, valid, and useful."""
import os
import re
import shutil
import subprocess

import pytest

from lib import cli
from lib.servers import TOP
from lib.tarry import BIN

PLACES = {"tarry.1": "etc/man", "tarry.conf.5": "etc/man", "cli.md": "docs/reference"}


@pytest.mark.parametrize("name", PLACES)
def test_a_generated_page_in_the_tree_is_what_the_help_texts_make(name):
    made = subprocess.run([TOP / "etc/build/man.py", name, BIN], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    there = TOP / PLACES[name] / name
    assert made.stdout == there.read_text(), f"{there} is out of date: make docs"


@pytest.mark.parametrize("page", ["tarry.1", "tarry.conf.5"])
def test_a_page_is_clean(page):
    path = TOP / "etc/man" / page
    done = subprocess.run(["groff", "-ww", "-mdoc", "-Tutf8", "-z", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-Tlint", "-Wstyle", str(path)], capture_output=True, text=True)
        complaints = [line for line in done.stdout.splitlines() if "referenced manual not found" not in line]
        assert complaints == []


def page_text(page):
    done = subprocess.run(["groff", "-mdoc", "-Tascii", "-P-c", "-rLL=200n", str(TOP / "etc/man" / page)],
                          capture_output=True, text=True, check=True)
    return re.sub(r".\x08", "", done.stdout)


def test_the_manual_has_each_command_and_flag():
    text = page_text("tarry.1")
    listed = re.findall(r"^  tarry ([a-z-]+(?: [a-z]+)?)", cli.run("help").stdout, re.M)
    assert len(listed) > 25
    for command in listed:
        assert re.search(rf"^ +{command}\b", text, re.M), command
        name = command.split()[0]
        for flag in re.findall(r"^  (--[a-z-]+)", cli.run("help", name).stdout, re.M):
            assert flag in text, (command, flag)


def test_each_exit_code_of_the_help_is_in_the_manual_and_in_the_reference():
    codes = re.findall(r"^  (\d+) +((?:.*\n)(?: {7}.*\n)*)", cli.run("help").stdout, re.M)
    assert len(codes) > 8
    manual, page = (re.sub(r"\s+", " ", text)
                    for text in (page_text("tarry.1"), (TOP / "docs/reference/cli.md").read_text()))
    for code, text in codes:
        meaning = " ".join(text.split())
        meaning = meaning[0].upper() + meaning[1:] + "."
        assert f"{code} {meaning}" in manual and f"| `{code}` | {meaning} |" in page, code


def test_sentences_of_the_manual_end_once():
    assert re.findall(r".*[.?!][.?!](?!\.).*", page_text("tarry.1").replace("...", "")) == []


def test_the_commands_that_alerts_advise_are_used_rightly():
    """Each command fails only because there is no daemon."""
    text = re.sub(r"\s+", " ", (TOP / "etc/prometheus/tarry.rules.yml").read_text())
    ask = r"\btarry ((?:targets|go-on|reload|(?:jobs|dead) [a-z]+)(?: [A-Z]+\b| --[a-z-]+ [A-Z]+\b)*)"
    advised = set(re.findall(ask, text))
    assert len(advised) > 4, advised
    for words in advised:
        done = cli.run(*words.split(), url="http://127.0.0.1:1")
        assert done.returncode == 69, (words, done.stderr)


def test_help_fits_a_terminal_of_80_columns():
    names = {line.split()[1] for line in cli.run("help").stdout.splitlines() if line.startswith("  tarry ")}
    assert len(names) > 15
    for args in ((), *((name,) for name in names)):
        done = cli.run("help", *args)
        assert done.returncode == 0 and [line for line in done.stdout.splitlines() if len(line) > 80] == [], args


def test_help_of_one_command_of_several_words_is_of_that_alone():
    def help_text(*args):
        done = cli.run(*args)
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout
    move = help_text("jobs", "move", "--help")
    assert "tarry jobs move ROUTE [ID]" in move and "--at TIME" in move
    assert "tarry jobs list" not in move and "waiting (default)" not in move
    assert help_text("jobs", "move", "r", "x", "--help") == help_text("help", "jobs", "move") == move
    both = help_text("jobs", "--help")
    assert both == help_text("help", "jobs") and "tarry jobs list" in both and "--at TIME" in both and "--state" in both
    assert help_text("jobs", "move", "-h") == move and help_text("jobs", "-h") == both
    assert help_text("-h") == help_text("help") and help_text("-V") == help_text("--version") == help_text("version")
    for args, what in ((("help", "jobs", "lits"), "unknown subcommand: lits"),
                       (("help", "status", "list"), "tarry status: the command has no subcommand list")):
        done = cli.run(*args)
        assert done.returncode == 64 and what in done.stderr, done.stderr
    wrong = cli.run("jobs", "show", "r")
    assert wrong.returncode == 64 and wrong.stderr == "tarry jobs show: missing argument: ROUTE ID; see: tarry jobs show --help\n"


def test_the_manual_has_each_option():
    text = page_text("tarry.conf.5")
    listed = cli.run("options").stdout
    names = re.findall(r"^  ([a-z_0-9]+) ", listed, re.M)
    assert len(names) > 150
    for name in names:
        assert re.search(rf"^ +{name}\b", text, re.M), name
    for title in re.findall(r"^(\S.*?)   ", listed, re.M):
        assert title in text, title


SHELLS = {
    "bash": """. "$1/tarry.bash"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tarry
               printf "%s\\n" "${COMPREPLY[@]}" """,
    # zsh completes only on a terminal. The test replaces the functions that show the result.
    "zsh": """_files() { print -l -- ${words[CURRENT]}*(N) }
              _describe() { for line in $lines; do print -r -- ${line%%:*}; done }
              completion=$(<"$1/tarry.zsh"); shift; words=("$@"); CURRENT=$#; eval "$completion" """,
    "fish": """source $argv[1]/tarry.fish
               complete -C (string join ' ' -- $argv[2..-1]) | string replace -r '\\t.*' '' """,
}
ARGV = {"bash": ["bash", "-euc", SHELLS["bash"], "bash"], "zsh": ["zsh", "-fuc", SHELLS["zsh"], "zsh"],
        "fish": ["fish", "-Nc", SHELLS["fish"]]}


class Shell:
    def __init__(self, name, folder):
        self.name, self.folder = name, folder

    def complete(self, *words, path=None, url="http://127.0.0.1:1"):
        """Returns the completions of these words; the last one is incomplete."""
        env = {**cli.environment(url), "HOME": str(self.folder), "TARRY_FORMAT": ""}
        env["PATH"] = f"{os.path.dirname(BIN)}:{env['PATH']}"
        done = subprocess.run([*ARGV[self.name], TOP / "etc/completion", "tarry", *words], capture_output=True, text=True,
                              env=env, cwd=path, timeout=60)
        assert done.returncode in (0, 1 if self.name != "bash" else 0) and done.stderr == "", done.stderr
        return done.stdout.split()


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    return Shell(request.param, tmp_path)


def test_completion(shell, tmp_path):
    complete = shell.complete
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "tarry.conf").write_text("")
    assert complete("st") == ["status"] and set(complete("re")) >= {"ready", "reload", "resume"}
    words = complete("")
    assert not {"worker", "complete", "doc"} & set(words) and words.count("jobs") == 1
    assert set(complete("jobs", "")) >= {"list", "show", "cancel", "now", "move"}
    assert set(complete("jobs", "list", "r", "--")) >= {"--state", "--json", "--url", "--help"}
    assert "--rate" in complete("dead", "replay", "r", "--") and "--rate" not in complete("dead", "drop", "r", "--")
    assert complete("run", "", path=folder) == ["tarry.conf"]
    assert complete("status", "--token-file", "t", path=folder) == ["tarry.conf"]
    assert complete("nothing", "") == [] and complete("nothing", "-") == []
    assert complete("jobs", "list", "r", "--max", "") == []
    assert complete("pause", "") == []  # no daemon


def test_completion_of_routes(shell, bench):
    if os.path.basename(BIN) != "tarry":
        pytest.skip("the program has another name")
    daemon = bench.tarry(bench.redis().url, '''
        sinks: { hook: { type = "http"; url = "http://127.0.0.1:9/"; }; };
        routes: { orders: { from = "http"; to = "hook"; }; mails: { from = "http"; to = "hook"; }; };''').start()
    url = f"http://127.0.0.1:{daemon.port}"
    assert sorted(shell.complete("pause", "", url=url)) == ["mails", "orders"]
    assert sorted(shell.complete("pause", "mails", "", url=url)) == ["mails", "orders"]
    assert shell.complete("jobs", "show", "o", url=url) == ["orders"]
    assert shell.complete("jobs", "list", "--max", "5", "o", url=url) == ["orders"]
    assert shell.complete("jobs", "show", "orders", "", url=url) == []
    daemon.stop()
