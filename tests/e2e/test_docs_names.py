# SPDX-License-Identifier: BSD-2-Clause
"""README and docs/: every name in code style exists: options, commands, flags, headers, metrics, alerts, requests,
reasons, environment variables and files. The README is short, and its totals are those of the fault table."""
import re

import yaml

from lib import cli
from lib.servers import TOP
from test_docs import PAGES, fenced, name, prose

GENERATED = ("docs/reference/options.md", "docs/reference/cli.md")
OURS = [page for page in PAGES if name(page) not in GENERATED]
# Pages that also name functions, structs and variables of the code.
OF_THE_CODE = ("CONTRIBUTING.md", "docs/internals.md", "bridge/README.md", "tests/bench/README.md")
FOR_USERS = [page for page in OURS if name(page) not in OF_THE_CODE]
FILES = [path for folder in ("bridge", "sources", "sinks", "lua", "etc", "tests", "docs") for path in (TOP / folder).rglob("*")
         if path.is_file()]
SOURCE = "\n".join(path.read_text() for path in FILES
                   if path.suffix in (".c", ".h") and path.relative_to(TOP).parts[0] in ("bridge", "sources", "sinks"))


def spans(page):
    """Returns the inline code of a page."""
    return [" ".join(text.split()) for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(page))]


def wrong(pages, unknown):
    """Returns (page, name) of each name that unknown() yields for a page."""
    return [(name(page), what) for page in pages for what in unknown(page)]


# --- metrics, alerts ---

def test_metrics_and_alerts_exist():
    rules = (TOP / "etc/prometheus/tarry.rules.yml").read_text()
    known = set(re.findall(r"\btarry_[a-z_]+", SOURCE))
    assert len(known) > 80

    def unknown(page):
        text = page.read_text()
        for metric in re.findall(r"(?<![\w/.:])tarry_[a-z_]+", text):
            if not {metric, re.sub(r"_(bucket|sum|count)$", "", metric)} & known:
                yield metric
        yield from (s for s in re.findall(r"(?:route|sink|source):tarry_\w+(?::\w+)?", text) if f"record: {s}" not in rules)
        yield from (alert for alert in re.findall(r"\bTarry[A-Z]\w+", text) if f"alert: {alert}\n" not in rules)
        for span in spans(page):  # "_stored_total" is the end of a name
            end = re.match(r"(_[a-z]+(?:_[a-z]+)+)(?:{|$)", span)
            if end and not any(metric.endswith(end[1]) for metric in known):
                yield span
    assert wrong(FOR_USERS, unknown) == []


# --- options ---

GROUPS = {"sources", "sinks", "routes", "retries", "tokens", "redis", "pools", "http", "admin", "daemon", "otlp", "plugins"}
# Settings and names of other software.
FOREIGN = {"max_queued_messages", "message.max.bytes", "session_timeout_ms", "topic_metadata_refresh_interval_ms",
           "proxy_set_header", "disc_copies", "local_content", "retention.ms", "appendonly.aof", "used_memory", "redis.conf",
           "ca.crt", "dashboard.enabled", "messages_delayed", "user_id",
           "ready_queue_time_gap", "redis_qps", "redis_latency", "redis_timer_due_jobs", "redis_timer_full_batches"}
# Fields of answers, log lines and rules; functions and topics of the examples.
FIELDS = {"payload_base64", "key_base64", "headers_base64", "id_base64", "blocked_by", "redis_us", "trace_id", "rule_files",
          "is_genuine", "orders.delayed", "orders.due", "least_reader", "least_writer"}


def test_options_exist():
    known = set(re.findall(r"^  ([a-z_0-9]+) ", cli.run("options").stdout, re.M)) | GROUPS | FOREIGN | FIELDS
    assert len(known) > 150

    def unknown(page):
        for span in spans(page):
            named = re.match(r"([a-z][\w.]*) = ", span)
            for word in [named[1]] if named else re.findall(r"^[a-z]+(?:[._][a-z]+)+$", span):
                group, _, key = word.rpartition(".")
                if word in known or (key in known and group in GROUPS) or word.startswith(("tarry.", "tarry_", "schedule_")):
                    continue
                if not any(path.name == word for path in FILES):
                    yield span
    assert wrong(FOR_USERS, unknown) == []


# --- commands and flags ---

def test_commands_and_flags_in_sentences_exist():
    listed = cli.run("help").stdout + "  tarry complete WORDS\n"
    helps = {command: cli.run("help", command).stdout for command in re.findall(r"^  tarry ([a-z-]+)", listed, re.M)}
    flags = set(re.findall(r"(?<!\S)--[a-z-]+", "".join(helps.values()) + (TOP / "etc/rabbitmq-move").read_text().replace('"', " ")))

    def unknown(page):
        for span in spans(page):
            found = re.match(r"(?:watch )?tarry ([a-z][a-z-]*)(?: ([a-z]+)\b)?(.*)", span)
            if found:
                command, second, rest = found.groups()
                several = re.search(rf"^  tarry {command} [a-z]+ ", listed, re.M)
                if command not in helps or several and second and f"  tarry {command} {second} " not in listed:
                    yield span
                else:
                    yield from (flag for flag in re.findall(r"(?<!\S)--[a-z-]+", rest) if flag not in helps[command])
            elif span.startswith("--") and name(page) not in OF_THE_CODE and span.split()[0] not in flags:
                yield span
    assert wrong(OURS, unknown) == []


# --- headers ---

def test_headers_exist():
    known = {header.lower() for header in re.findall(r'"([A-Za-z][\w-]*-[\w-]+)"', SOURCE)}

    def unknown(page):
        text = re.sub(r"https?://\S+|\S*delay-queue\S*|\S*[/.]\S*delay\S*", "", page.read_text())
        yield from (header for header in re.findall(r"(?i)(?<![\w$/.-])(?:delay|deliver|x-delay)-[a-z-]+\b", text)
                    if header.lower() not in known)
    assert wrong(OURS, unknown) == []


# --- requests ---

def test_requests_exist():
    paths = yaml.safe_load((TOP / "etc/openapi.yaml").read_text())["paths"]
    paths |= {path: {"get": {}} for path in ("/", "/console", "/console/{file}")}  # for browsers
    known = {re.sub(r"{\w+}", "*", path).rstrip("/"): {method.upper() for method in row} for path, row in paths.items()}

    def is_known(method, path):
        shape = re.sub(r"{\w+}|(?<=/)[A-Z_]+(?=/|$)|(?<=/)(?:hooks|order-17|mails)(?=/|$)", "*", path.split("?")[0]).rstrip("/")
        if method:
            return method in known.get(shape, ())
        return any(row == shape or row.startswith(shape + "/") for row in known)  # also the beginning of paths

    def unknown(page):
        for span in spans(page):
            found = re.match(r"([A-Z, ]*) ?(/(?:v1|livez|readyz|healthz|metrics|console)\b[\w{}/?=.-]*)$", span)
            for method in re.findall(r"[A-Z]+", found[1]) or [None] if found else []:
                if not is_known(method, found[2]):
                    yield span
        for line in re.sub(r"\\\n", " ", "\n".join(fenced(page))).splitlines():
            found = re.search(r"curl (.*?)https?://[\w.:]+(/v1[\w/.-]*)", line)
            if found:
                asked = re.search(r"-X ([A-Z]+)", line)
                sends = re.search(r"(?<!\S)(--data\S*|-d)\b", line)
                if not is_known(asked[1] if asked else "POST" if sends else "GET", found[2]):
                    yield line
    assert wrong(OURS, unknown) == []


def test_the_page_of_dead_letters_lists_every_reason():
    known = set(re.findall(r'\[REASON_\w+\] = "([a-z-]+)"', (TOP / "bridge/job/tries.c").read_text()))
    assert len(known) > 10
    table = re.search(r"\| reason \| \|\n(.*?)\n\n", (TOP / "docs/how-to/dead-letters.md").read_text(), re.S)[1]
    assert {word for row in table.splitlines()[1:] for word in re.findall(r"`([^`]+)`", row.split("|")[1])} == known


# --- environment, files ---

def test_environment_variables_exist():
    known = {variable for path in FILES if path.suffix not in (".md", ".png")
             for variable in re.findall(r"\bTARRY_[A-Z_]+\b", path.read_text(errors="replace"))}
    assert wrong(OURS, lambda page: set(re.findall(r"(?<![\w{])TARRY_[A-Z_]+\b", page.read_text())) - known) == []


def test_files_exist():
    names = {"/" + str(path.relative_to(TOP)) for path in FILES}

    def unknown(page):
        for span in spans(page):
            path = re.match(r"\.?/?((?:etc|tests|docs|bridge|sources|sinks|lua)/[\w./*-]+)", span)
            if path and "NAME" not in span:
                if not any(TOP.glob(path[1].rstrip("/."))):
                    yield span
            elif re.fullmatch(r"[a-z][a-z_]+(?:/[a-z_]+)*\.(?:c|h|lua)", span):
                if not any(known.endswith("/" + span) for known in names):
                    yield span
    assert wrong(OURS, unknown) == []


# --- the README ---

def test_the_readme_has_at_most_8_kb():
    assert (TOP / "README.md").stat().st_size <= 8000


def one_line(path):
    return " ".join((TOP / path).read_text().split())


def test_the_totals_in_the_pages_are_those_of_the_fault_table():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]]
            for line in (TOP / "docs/explanation/faults.md").read_text().splitlines() if re.match(r"\| (?:\d|M|R)", line)]
    assert len(rows) > 100
    jobs, faults, early, corrupt, twice, bound = (sum(int(row[n].replace(",", "")) for row in rows) for n in (2, 3, 5, 6, 7, 8))
    lost = ("no", "one", "two", "three", "four", "five", "six")[sum(row[4].split(" of ")[0] != "0" for row in rows)]
    assert (f"{jobs / 1e6:.1f} million jobs, {faults:,} injected faults, {early} early, {corrupt} corrupt, {twice:,} delivered "
            f"twice ({bound:,} permitted). Jobs were lost only in {lost} scenarios") in one_line("README.md")
    assert (f"{twice:,} of {jobs / 1e6:.1f} million jobs, where {bound:,} were permitted"
            in one_line("docs/explanation/duplicates.md"))


def test_the_readme_shows_what_the_quickstart_prints():
    shown = re.search(r"```\n(== Arriving\n.*?)```", (TOP / "README.md").read_text(), re.S)[1].splitlines()
    script = (TOP / "etc/quickstart").read_text()
    assert f"say '{shown[0]}'" in script and len(shown) == 3
    assert 'f"   {way:5} {where:22} {payload.decode(errors=\'replace\')!r}, "' in script and \
        'f"{late_ms:.1f} ms after it was due"' in script
    for line, way, where in zip(shown[1:], ("MQTT", "HTTP"), ("demo/hello", "/due")):
        payload = f"hello over {way}"
        assert re.fullmatch(re.escape(f"   {way:5} {where:22} {payload!r}, ") + r"\d\.\d ms after it was due", line), line
        assert f"'{payload}'" in script
