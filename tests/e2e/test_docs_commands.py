# SPDX-License-Identifier: BSD-2-Clause
"""README and docs/: the commands of the pages run. Each `tarry` and `curl` command runs against a daemon that has the
routes, jobs and dead letters that the pages name; the pages on backups run against a Redis of their own."""
import json
import os
import re
import shutil
import subprocess

import pytest

from lib import collect
from lib.servers import TOP, free_port, wait_for
from lib.tarry import BIN, Tarry
from test_docs import PAGES, blocks, name

# Another test runs the commands of these pages, or they need a system of their own.
ELSEWHERE = {
    "docs/tutorial.md": "tests/e2e/test_docs.py",
    "docs/how-to/clients.md": "tests/e2e/test_examples.py",
    "docs/how-to/install.md": "tests/package/test_system.py",
    "docs/how-to/kubernetes.md": "tests/package/test_chart.py",
    "docs/how-to/migrate.md": "tests/e2e/test_import.py",
    "docs/how-to/rabbitmq.md": "tests/e2e/lib/rabbitmq.py",
    "docs/how-to/rewind.md": "tests/e2e/test_kafka_rewind.py",
    "docs/how-to/backup.md": "tests/e2e/test_docs_commands.py",
    "docs/how-to/simulate.md": "tests/run",
}
COMMANDS = {"tarry", "curl", "Q=http://127.0.0.1:7700/v1/queues/mails"}
# Programs that other pages use in passing. tests/package and tests/fresh run them.
OTHER = {"systemctl", "openssl", "tests/bench/run", "redis-cli", "./etc/quickstart", "make", "etc/build/install", "apt-get",
         "dpkg-deb", "docker", "helm", "kubectl"}
CONF = '''
sources: {{ orders_in: {{ type = "kafka"; brokers = "{kafka}"; topics = [ "{topic}" ]; group = "{topic}";
                          key_is_id = true; }}; }};
sinks:   {{ shop_hook: {{ type = "http"; url = "{hook}"; }}; pull: {{ type = "queue"; }}; }};
routes:  {{ orders: {{ from = "orders_in"; to = "shop_hook"; }};
           hooks: {{ from = "http"; to = "shop_hook"; retry = "never"; }};
           queue: {{ from = "http"; to = "pull"; }}; }};
'''


def commands(page):
    """Returns each command of the shell blocks, without its comment. A block may span lines by a backslash."""
    for text in blocks(page, "sh"):
        if "<<" in text:
            continue
        for line in re.sub(r" *\\\n *", " ", text).splitlines():
            line = re.sub(r"\s+# .*$", "", line).strip()
            if line:
                yield line


SHOWN = [page for page in PAGES if name(page) not in ELSEWHERE and
         any(line.split()[0] in COMMANDS for line in commands(page)) and page.parent.name != "bench"]


def test_the_tests_of_other_pages_exist():
    assert [path for page, path in ELSEWHERE.items() if (TOP / page).exists() and not (TOP / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_program_of_a_page_is_one_that_a_test_runs(page):
    if name(page) in ELSEWHERE or name(page) in ("CONTRIBUTING.md", "bridge/README.md", "tests/bench/README.md"):
        return
    assert {line.split()[0] for line in commands(page)} - COMMANDS - OTHER == set()


class Shop:
    """A daemon with the routes of the pages. order-17 is pending, letter is a dead letter."""

    def __init__(self, bench):
        self.bench, self.hook = bench, bench.keep(collect.FromHttp(lambda arrival: 400 if arrival.payload == b"bad" else 204))
        bench.kafka.add_topic(bench.name)
        self.daemon = bench.tarry(bench.redis().url, CONF.format(
            kafka=bench.kafka.address, topic=bench.name, hook=self.hook.url)).start()
        self.folder = bench.folder
        (self.folder / "bin").mkdir()
        (self.folder / "bin/tarry").symlink_to(BIN)
        self.url = f"http://127.0.0.1:{self.daemon.port}"

    def prepare(self):
        headers = {"Delay-Id": "order-17", "Deliver-After": "1h", "Content-Type": "text/plain"}
        assert self.daemon.ask("PUT", "/v1/routes/hooks/jobs/order-17", b"hello", headers)[0] in (200, 201)
        if self.daemon.ask("GET", "/v1/routes/hooks/dead/letter")[0] == 404:
            self.daemon.ask("PUT", "/v1/routes/hooks/jobs/letter", b"bad", {"Content-Type": "text/plain"})
            wait_for("the dead letter", lambda: self.daemon.ask("GET", "/v1/routes/hooks/dead/letter")[0] == 200)
        job = {"Content-Type": "text/plain"}
        assert self.daemon.ask("POST", "/v1/queues/mails/jobs", b"hello", job)[0] == 201
        pulled = self.daemon.ask("POST", "/v1/queues/mails/pull?wait=10s", b"")[2]
        return pulled["jobs"][0] if "jobs" in pulled else pulled[0]

    def real(self, line):
        """Returns a line of a page with this daemon's address and with the names of real things."""
        pulled = self.prepare()
        if re.search(r"\bTOKEN\b", line):
            line = re.sub(r"\bID\b", pulled["id"], line).replace("TOKEN", pulled["token"])
        if line.startswith("tarry dead"):
            line = re.sub(r"\bID\b", "letter", line)
        if line.startswith("tarry queues") or " --queue " in line:
            line = re.sub(r"\bROUTE\b", "queue", line)
        names = {"ROUTE": "hooks", "QUEUE": "mails", "ID": "order-17", "TARGET": self.hook.url,
                 "FILE": str(self.daemon.conf)}
        line = re.sub(r"\b[A-Z]{2}[A-Z_]*\b", lambda found: names.get(found[0], found[0]), line)
        line = re.sub(r"http://127\.0\.0\.1:770[01]|https://shop\.example:7700", self.url, line)
        line = re.sub(r"(?<!\S)(?:/etc/tarry/)?tarry\.conf\b", str(self.daemon.conf), line)
        line = re.sub(r"\$\(cat \S+\)", "none", line).replace("$Q", f"{self.url}/v1/queues/mails")
        return re.sub(r"(?<!\S)curl ", "curl -sS --fail-with-body ", line)

    def run(self, line):
        """Runs a line of a page. A person would confirm a change of many jobs, end a tap, and resume a drained route."""
        line = self.real(line)
        if re.match(r"tarry (jobs (cancel|move|now)|dead (replay|drop)|queues purge)", line) and "--dry-run" not in line:
            line += " --yes"
        if line.startswith("tarry tap"):
            line = f"timeout 1 {line} || [ $? = 124 ]"
        if line.startswith("tarry drain"):
            line = f"tarry jobs cancel hooks --all --yes && {line} && tarry resume hooks"
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "TARRY_URL": self.url})
        # go-on: the target is not stopped.
        assert done.returncode == 0 or "go-on" in line and done.returncode == 1, (line, done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_the_commands_of_a_page_run(page, bench):
    shop, ran = Shop(bench), 0
    for line in commands(page):
        if line.split()[0] not in COMMANDS or line.startswith("Q="):
            continue
        for part in re.split(r" && ", line):
            if re.match(r"tarry (run|check \S+ --connect)", part):
                continue  # the daemon runs already, and test_check_connect.py checks the option
            shop.run(part)
            ran += 1
    assert ran
    shop.daemon.stop()


# --- backups ---

class Host:
    """The folders of a Debian host under `folder`, and programs in PATH that act on them. systemctl starts and stops a
    Redis with the settings that docs/how-to/redis.md recommends."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        for path in ("var/lib/redis", "etc/redis", "etc/tarry", "backup", "bin"):
            (folder / path).mkdir(parents=True)
        settings, = blocks(TOP / "docs/how-to/redis.md", "conf")
        (folder / "etc/redis/redis.conf").write_text(
            f"{settings}port {self.port}\nbind 127.0.0.1\nsave \"\"\ndir {folder}/var/lib/redis\n"
            f"daemonize yes\npidfile {folder}/redis.pid\nlogfile {folder}/redis.log\n")
        server = os.environ.get("TARRY_REDIS_SERVER", "redis-server")
        self.program("systemctl", f"""
            case "$*" in
            "stop tarry redis-server")
                {shutil.which("redis-cli")} -p {self.port} shutdown
                while [ -e {folder}/redis.pid ]; do sleep 0.1; done ;;
            "start redis-server")
                {server} {folder}/etc/redis/redis.conf
                until redis-cli ping | grep -q PONG; do sleep 0.1; done ;;
            "start tarry") ;;
            *) exit 1 ;;
            esac""")
        self.program("redis-cli", f'exec {shutil.which("redis-cli")} -p {self.port} "$@"')
        self.program("chown", "exit 0")
        (folder / "bin/tarry").symlink_to(BIN)
        self.run("systemctl start redis-server")

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, script):
        script = re.sub(r"(?<![\w/])/(var/lib/redis|etc|backup)\b", rf"{self.folder}/\1", script)
        done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    def close(self):
        self.run("systemctl stop tarry redis-server")


def section(page, title):
    """Returns the shell blocks of a section, as one script."""
    text = re.search(rf"(?ms)^## {re.escape(title)}$(.*?)(?=^## |\Z)", page.read_text())[1]
    found = re.findall(r"(?ms)^```sh\n(.*?)^```$", text)
    assert found, title
    return "".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["snapshot", "append-only file"])
def test_a_restored_backup_has_the_jobs_of_its_moment_and_the_audit_finds_no_error(bench, way):
    page = TOP / "docs/how-to/backup.md"
    host = bench.keep(Host(bench.folder / "host"))
    hook = bench.keep(collect.FromHttp())
    body = (f'sinks: {{ shop_hook: {{ type = "http"; url = "{hook.url}"; }}; }};'
            'routes: { hooks: { from = "http"; to = "shop_hook"; }; };')

    def start():
        return bench.keep(Tarry(bench.folder, f"redis://127.0.0.1:{host.port}/0", body,
                                redis_options='durability = "fsync";')).start()

    def send(daemon, key, after):
        status = daemon.ask("POST", "/v1/routes/hooks/jobs", key.encode(),
                            {"Delay-Id": key, "Deliver-After": after, "Content-Type": "text/plain"})[0]
        assert status == 201

    def resume(daemon):
        assert daemon.ask("POST", "/v1/admin/routes/hooks/resume")[0] == 200

    daemon = start()
    assert daemon.ask("POST", "/v1/admin/routes/hooks/pause")[0] == 200
    for n in range(50):
        send(daemon, f"before-{n}", "1ms" if n % 2 else "1h")
    daemon.stop()
    host.run(section(page, {"snapshot": "Take a snapshot", "append-only file": "Copy the append-only file"}[way]))
    daemon = start()
    resume(daemon)
    send(daemon, "after", "1h")
    hook.wait_count(25)
    daemon.stop()
    host.run(section(page, f"Restore {'a' if way == 'snapshot' else 'the'} {way}"))
    (host.folder / "etc/tarry/tarry.conf").write_text(daemon.conf.read_text())
    found = host.run(section(page, "Check the jobs, start tarry"))
    assert "50 jobs, 0 findings: everything is consistent" in found, found
    assert host.run("redis-cli config get appendonly").split()[1] == "yes"
    daemon = start()
    resume(daemon)  # the backup contains the pause, too
    hook.wait_count(50)  # the 25 that were delivered after the backup, once more
    assert daemon.ask("GET", "/v1/routes/hooks/jobs/before-0")[2]["state"] == "waiting"
    assert daemon.ask("GET", "/v1/routes/hooks/jobs/after")[0] == 404
    daemon.stop()


def test_the_pages_contain_commands():
    assert {name(page) for page in SHOWN} >= {"README.md", *(f"docs/how-to/{page}.md" for page in (
        "operate", "cancel", "dead-letters", "queues", "configure", "observe"))}
