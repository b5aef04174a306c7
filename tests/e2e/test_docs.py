# SPDX-License-Identifier: BSD-2-Clause
"""README and docs/: links exist, configurations are valid, commands exist, generated pages are up to date."""
import os
import re
import shutil
import subprocess
import textwrap

import pytest

from lib import cli
from lib.servers import TOP
from lib.tarry import BIN

PAGES = [TOP / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "bridge/README.md",
                                 "tests/bench/README.md")] + sorted(TOP.glob("docs/**/*.md"))


def name(page):
    return str(page.relative_to(TOP))


def prose(page):
    """Returns the text of a page without its blocks."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())


def blocks(page, *languages):
    """Returns the blocks of a page, also those that belong to an item of a list."""
    return [textwrap.dedent(text) for its, text in re.findall(r"(?ms)^ *```(\w*)\n(.*?)^ *```$", page.read_text())
            if its in languages]


def fenced(page):
    return blocks(page, "", "sh", "conf", "promql")


def anchors(page):
    """Returns the anchors that GitHub makes of the headings."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"(?m)^#+ (.*)$", prose(page))}


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", prose(page))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_a_file_and_a_heading(page):
    for link in (a or b for a, b in links(page)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_links_every_page():
    index = TOP / "docs/README.md"
    linked = {(index.parent / (a or b).partition("#")[0]).resolve() for a, b in links(index)}
    assert set(TOP.glob("docs/**/*.md")) - {index} <= linked


# --- configurations ---

CONFIGURATIONS = [(page, text) for page in PAGES for text in blocks(page, "") if re.match(r"\w+: +{", text)]


def made_whole(text, folder):
    """Completes a configuration: adds a sink and a route if it has none, and the secrets that it names."""
    if "sinks:" not in text:
        text += 'sinks: { shop_hook: { type = "http"; url = "http://127.0.0.1:9/"; }; };\n'
    if "routes:" not in text:
        source = re.search(r"sources: +{ (\w+)", text)
        text += (f'routes: {{ r: {{ from = "{source[1] if source else "http"}"; '
                 f'to = "{re.search("sinks: +{ (.+?):", text)[1]}"; }}; }};\n')
    for name in re.findall(r"\$\{(?:cred|file):([^}]+)}", text):
        (folder / name.split("/")[-1]).write_text(name.ljust(32, "x") + "\n")
    return re.sub(r"\$\{file:.*?([^/}]+)}", rf"${{file:{folder}/\1}}", text)


@pytest.mark.parametrize("page, text", CONFIGURATIONS, ids=lambda v: v.split(":")[0] if isinstance(v, str) else name(v))
def test_each_configuration_is_valid(page, text, tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text(made_whole(text, tmp_path))
    done = subprocess.run([BIN, "check", str(conf)], capture_output=True, text=True, check=False,
                          env={**os.environ, "CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert done.returncode == 0 and ": valid; " in done.stdout, done.stderr


def test_the_pages_contain_configurations():
    assert len(CONFIGURATIONS) >= 6


# --- commands ---

def commands(page):
    """Returns the words and options of each `tarry COMMAND ...` in a shell block."""
    for text in blocks(page, "sh", ""):
        for line in re.sub(r"\\\n", " ", text).splitlines():
            for part in re.split(r"&&|\||;", line.split(" #")[0]):
                found = re.match(r"\s*(?:build/|until build/)?tarry (.*)", part)
                if found:
                    yield found[1]


@pytest.mark.parametrize("page", [p for p in PAGES if list(commands(p))], ids=name)
def test_commands_and_their_options_exist(page):
    known = cli.run("help").stdout
    for command in commands(page):
        first = command.split()[0]
        assert re.search(rf"^  tarry {re.escape(first)}\b", known, re.M) or first in ("version", "help"), command
        text = cli.run("help", first).stdout
        for option in re.findall(r"(?<!\S)--[a-z-]+", command):
            assert option in text, command


# --- the tutorial ---

@pytest.mark.long
@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not here")
@pytest.mark.skipif(not (TOP / "build/kafka/libs/pom.xml").exists(), reason="Apache Kafka is not here: tests/kafka/fetch")
def test_the_tutorial_works_as_described(tmp_path):
    """Runs all its commands in a separate folder, except those that install and build. Its ports must be free."""
    page = TOP / "docs/tutorial.md"
    script = "set -e\n" + re.sub(r"(?m)^(etc/build/install|make|tests/kafka/fetch)\b.*", "", "".join(blocks(page, "sh")))
    script = re.sub(r"(?m)^(kill|wait) .*", r"\g<0> || true", script)  # the exit code of a killed process
    (tmp_path / "build").mkdir()
    for path in ("tests", "docs", "etc"):
        (tmp_path / path).symlink_to(TOP / path)
    for path in ("tarry", "kafka"):
        (tmp_path / "build" / path).symlink_to(TOP / "build" / path)
    done = subprocess.run(["bash", "-mc", script], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    shown = [text for text in blocks(page, "") if text.startswith("cancel ")]
    assert done.returncode == 0 and len(shown) == 1 and shown[0] in done.stdout, done.stdout + done.stderr
    for says in (" 0 topics:", "shop.conf: valid;", "order-19  Failed to connect", 'cancel order-19 {"total":9}'):
        assert says in done.stdout, (says, done.stdout)


# --- generated pages ---

@pytest.mark.parametrize("page, script", [("how-to/runbook.md", "runbook.py"), ("reference/http-api.md", "http_api.py")])
def test_a_generated_page_is_up_to_date(page, script):
    made = subprocess.run([TOP / "etc/build" / script], capture_output=True, text=True, check=True).stdout
    assert made == (TOP / "docs" / page).read_text(), "out of date: make docs"


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not here")
def test_the_options_are_those_of_the_manual_page():
    made = subprocess.run(["mandoc", "-Tmarkdown", TOP / "etc/man/tarry.conf.5"], capture_output=True, text=True,
                          check=True).stdout
    assert made == (TOP / "docs/reference/options.md").read_text(), "out of date: make docs"
