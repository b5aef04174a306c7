# SPDX-License-Identifier: BSD-2-Clause
"""Mistakes that people make in a configuration: `tarry check` names the file, the line, the cause and what to do.
`python3 tests/e2e/test_mistakes.py` prints the table."""
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import pytest

from lib import cli

GOOD = '''\
redis:   { url = "redis://127.0.0.1:6379/0"; };
http:    { listen = "127.0.0.1:7700"; };
daemon:  { log = "info"; };
sources: {
    orders_in:  { type = "kafka"; brokers = "127.0.0.1:9092"; topics = [ "orders.delayed" ]; group = "tarry"; };
    devices_in: { type = "mqtt"; url = "mqtt://127.0.0.1:1883"; topics = [ "$delayed/#" ]; };
};
sinks: {
    orders_out: { type = "kafka"; brokers = "127.0.0.1:9092"; };
    devices_out: {
        type = "mqtt";
        url = "mqtt://127.0.0.1:1883";
    };
    hook: { type = "http"; url = "https://shop.example/due"; timeout = "10s"; };
};
routes: {
    orders:  { from = "orders_in"; to = "orders_out"; topic = "orders"; retry = [ "10s", "20s" ]; };
    devices: { from = "devices_in"; to = "devices_out"; };
    hooks:   { from = "http"; to = "hook"; };
};
'''


class Mistake:
    """new replaces old in GOOD. cause and hint: parts of the finding's text."""

    def __init__(self, name, old, new, line, cause, hint, severity="error", file="tarry.conf"):
        self.name, self.old, self.new, self.line = name, old, new, line
        self.cause, self.hint, self.severity, self.file = cause, hint, severity, file

    def write(self, folder):
        assert GOOD.count(self.old) >= 1, self.old
        (folder / "part.conf").write_text('daemon: { log = "info" };\nadmin: { listne = "x"; };\n')
        conf = folder / "tarry.conf"
        conf.write_text(GOOD.replace(self.old, self.new, 1))
        return conf


YAML = '''\
redis:
  url: redis://127.0.0.1:6379/0
routes:
  orders:
    from: http
'''
JSON = '''\
{
  "redis": { "url": "redis://127.0.0.1:6379/0" },
  "routes": {}
}
'''
WARNING = "warning"
MISTAKES = [
    # --- syntax ---
    Mistake("a text without quotes", 'url = "redis://127.0.0.1:6379/0"', "url = redis://127.0.0.1:6379/0", 1,
            "url: redis://127.0.0.1:6379/0 is not in quotes", 'write "redis://127.0.0.1:6379/0"'),
    Mistake("an address without quotes", '"127.0.0.1:7700"', "127.0.0.1:7700", 2,
            "listen: 127.0.0.1:7700 is not in quotes", 'write "127.0.0.1:7700"'),
    Mistake("a duration without quotes", '"10s"; };', "10s; };", 14,
            "timeout: 10s is not in quotes", 'write "10s"'),
    Mistake("a number and a unit without quotes", 'timeout = "10s"', "timeout = 10 s", 14,
            "timeout: a number and its unit must be in quotes", 'write timeout = "10s";'),
    Mistake("single quotes", '"info"', "'info'", 3,
            "log: the quotes around info are not straight double quotes", 'write "info"'),
    Mistake("typographic quotes", '"info"', "\u201cinfo\u201d", 3,
            "log: the quotes around info are not straight double quotes", 'write "info"'),
    Mistake("an opening quote without its end", '"127.0.0.1:7700"', '"127.0.0.1:7700', 2,
            "a string", "close"),
    Mistake("a comma before the end of a list", '"10s", "20s" ]', '"10s", "20s", ]', 17,
            'a comma before "]"', "remove the comma"),
    Mistake("no comma between two numbers", '[ "10s", "20s" ]', "[ 10 20 ]", 17,
            "a comma is missing before 20", "write a comma between two items"),
    Mistake("a list of texts and numbers", '[ "10s", "20s" ]', '[ "10s", 60 ]', 17,
            "the list of retry mixes texts, numbers or truth values: 60", 'in quotes, durations with their unit'),
    Mistake("a list without its end", '[ "orders.delayed" ]', '[ "orders.delayed"', 5,
            'the "[" of topics is not closed before ";"', 'add "]" before ";"'),
    Mistake("a list that ends with a brace", '[ "orders.delayed" ]', '[ "orders.delayed" }', 5,
            '"}" does not close the "[" of line 5', 'write "]"'),
    Mistake("a group in the middle without its end", '1883";\n    };\n    hook', '1883";\n    hook', 10,
            'the "{" of devices_out is not closed', 'add the missing "}"'),
    Mistake("a section without its end", '10s"; };\n};\n', '10s"; };\n', 8,
            'the "{" of sinks is not closed', 'add the missing "}"'),
    Mistake("a brace too many", 'to = "hook"; };\n', 'to = "hook"; }; };\n', 20,
            '"}" closes nothing', 'remove it, or look for an earlier "}"'),
    Mistake("a section without a colon", "daemon:  {", "daemon {", 3,
            'a ":" is missing between daemon and "{"', "write daemon: {"),
    Mistake("an option without =", 'log = "info"', 'log "info"', 3,
            'a "=" is missing after log', 'write log = "info";'),
    Mistake("two =", 'log = "info"', 'log == "info"', 3, 'a second "=" after log', "remove it"),
    Mistake("no value", 'log = "info";', "log = ;", 3, "log has no value", "write log = VALUE;"),
    Mistake("two semicolons", 'log = "info";', 'log = "info";;', 3, '";" without a setting before it', "remove it"),
    Mistake("YAML", GOOD, YAML, 2, "this looks like YAML", "libconfig writes groups in braces"),
    Mistake("JSON", GOOD, JSON, 1, "this looks like JSON", "names without quotes"),
    Mistake("TOML", 'daemon:  { log = "info"; };', '[daemon]\nlog = "info"', 3,
            "this looks like INI or TOML", "sections as groups"),
    Mistake("yes for true", 'type = "http"; url', 'type = "http"; verify_tls = yes; url', 14,
            "verify_tls: yes is not a value", "write verify_tls = true;"),
    Mistake("a name in quotes", 'log = "info"', '"log" = "info"', 3,
            'the name "log" is in quotes', "write names without quotes"),
    Mistake("a section without braces", 'daemon:  { log = "info"; };', 'daemon: log = "info";', 3,
            "daemon must be a group", "write daemon: { log = ...; };"),
    Mistake("a byte order mark", "redis:", "\ufeffredis:", 1, "the file begins with a byte order mark", "without this mark"),
    Mistake("a name with dots", 'group = "tarry";', 'group = "tarry"; kafka: { fetch.min.bytes = 1; };', 5,
            "the name fetch.min.bytes contains a dot", "write _ for each dot"),
    Mistake("the same option twice", 'log = "info";', 'log = "info"; log = "debug";', 3,
            "daemon contains log twice, first on line 3", "remove one of them"),
    # --- values ---
    Mistake("a unit that tarry does not have", '"10s"; };', '"10sec"; };', 14,
            'sinks.hook.timeout: "10sec" is not valid', 'did you mean "10s"?'),
    Mistake("a duration as a number", 'timeout = "10s"', "timeout = 10", 14,
            "must be a duration with a unit in quotes", 'write "10s"'),
    Mistake("a size with another unit", 'log = "info"', 'job_max = "64 kb"', 3,
            'daemon.job_max: "64 kb" is not valid', 'did you mean "64KB"?'),
    Mistake("an option with a typo", "timeout", "timeuot", 14,
            'sinks.hook has no option "timeuot"', 'did you mean "timeout"?'),
    Mistake("a port out of range", "127.0.0.1:7700", "127.0.0.1:242424", 2,
            "http.listen: port 242424 is out of range", "write a port from 1 to 65535"),
    Mistake("a port of Redis out of range", ":6379", ":66379", 1, "port 66379 is out of range", "write a port from 1 to 65535"),
    Mistake("a port of a Kafka broker out of range", "9092", "90922", 5,
            "sources.orders_in: brokers: port 90922 is out of range", "write a port"),
    Mistake("a port of an MQTT broker out of range", ":1883", ":0", 6,
            "sources.devices_in: url: port 0 is out of range", "write a port"),
    Mistake("a port of a callback out of range", "shop.example/", "shop.example:443443/", 14,
            "sinks.hook: url: port 443443 is out of range", "write a port"),
    Mistake("an address without a port", "127.0.0.1:7700", "127.0.0.1", 2,
            'http.listen: "127.0.0.1" is not an address', "write host:port"),
    Mistake("a certificate that does not exist", '7700";', '7700"; tls_cert = "/nowhere/cert.pem";', 2,
            "http.tls_cert: this user cannot read /nowhere/cert.pem: No such file or directory", "create the file, or correct the path", WARNING),
    Mistake("a key that does not exist", 'brokers = "127.0.0.1:9092"; };',
            'brokers = "127.0.0.1:9092"; tls = true; cert_file = "/etc/passwd"; key_file = "/nowhere/key.pem"; };', 9,
            "sinks.orders_out.key_file: this user cannot read /nowhere/key.pem", "create the file, or correct the path", WARNING),
    # --- topics ---
    Mistake("an empty topic", '"orders.delayed"', '""', 5, "sources.orders_in.topics: an entry must not be empty", "write a text, or remove it"),
    Mistake("a Kafka topic with a blank", 'topic = "orders"', 'topic = "my orders"', 17,
            "routes.orders.topic: the topic contains a character that Kafka does not allow", "use letters, digits and . _ -"),
    Mistake("a Kafka topic that is too long", 'topic = "orders"', f'topic = "{"o" * 250}"', 17,
            "routes.orders.topic: the topic has 250 bytes", "Kafka allows at most 249"),
    Mistake("an MQTT wildcard in the middle", "$delayed/#", "$delayed/#/x", 6,
            'topic filter "$delayed/#/x" has a wildcard in the wrong place', "# as the whole last level"),
    Mistake("an MQTT wildcard in a target", 'to = "devices_out";', 'to = "devices_out"; topic = "out/+";', 18,
            "routes.devices.topic: a topic to publish to must not contain the wildcards + and #", "remove them"),
    # --- routes ---
    Mistake("a second route for the same messages", "    hooks:",
            '    again: { from = "devices_in"; to = "hook"; match = "a/#"; };\n    hooks:', 19,
            "routes.again receives no messages of the source devices_in: routes.devices, which is above it, accepts "
            "all of them", "move routes.again up", WARNING),
    Mistake("a sink that does not exist", 'to = "hook"', 'to = "hok"', 19,
            'routes.hooks.to: there is no sink "hok"', 'did you mean "hook"?'),
    Mistake("retries that take longer than max_lateness", 'retry = [ "10s", "20s" ]',
            'retry = [ "10s", "20s" ]; max_lateness = "20s"', 17,
            "routes.orders.retry takes longer than max_lateness (20s)", "shorten the schedule", WARNING),
    # --- includes ---
    Mistake("an include that does not exist", "daemon:", '@include "none.conf"\ndaemon:', 3,
            "cannot include", "correct the path, or remove the @include"),
    Mistake("an include without quotes", "daemon:", "@include conf.d/*.conf\ndaemon:", 3,
            "the path after @include is not in quotes", 'write @include "FILE"'),
    Mistake("an include of an absent folder", "daemon:", '@include "confd/*.conf"\ndaemon:', 3,
            "includes nothing", "correct the path, or create the folder", WARNING),
    Mistake("a mistake in an included file", 'daemon:  { log = "info"; };', '@include "part.conf"', 2,
            'admin has no option "listne"', 'did you mean "listen"?', file="part.conf"),
]


def findings(conf, *flags):
    done = cli.run("check", "--json", conf, *flags)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_the_configuration_without_mistakes_is_valid(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text(GOOD)
    code, found, said = findings(conf, "--strict")
    assert (code, found) == (0, []) and said == f"{conf}: valid; sources: 3, sinks: 3, routes: 3\n"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_found_with_its_place_cause_and_hint(tmp_path, mistake):
    conf = mistake.write(tmp_path)
    code, found, _ = findings(conf)
    if mistake.name == "a comma before the end of a list" and code == 0:
        pytest.skip("libconfig from 1.6 on allows it")
    assert code == (78 if mistake.severity == "error" else 0), found
    first = found[0]
    assert (Path(first["file"]).name, first["line"], first["severity"]) == (mistake.file, mistake.line, mistake.severity), found
    assert mistake.cause in first["text"], first
    assert mistake.hint in (first["hint"] or ""), first
    # As text: the same, on standard error, in one line.
    done = cli.run("check", "--table", conf)
    prefix = "warning: " if mistake.severity == "warning" else ""
    line = f"{first['file']}:{mistake.line}: {prefix}{first['text']}"
    assert done.stderr.splitlines()[0] == line + (f"; {first['hint']}" if first["hint"] else "")
    assert cli.run("check", "--strict", conf).returncode == 78


def test_a_value_of_a_secret_is_not_shown_in_a_syntax_error(tmp_path):
    conf = tmp_path / "tarry.conf"
    for text in ("password = hunter2;", "password = 'hunter2';", 'password "hunter2";', "user = redis://:hunter2@x;",
                 "token_secret = 5 hunter2;", 'password = [ "a", hunter2 ];'):
        conf.write_text(f"redis: {{ {text} }};\n")
        for flag in ("--json", "--table"):
            done = cli.run("check", conf, flag)
            assert done.returncode == 78 and "hunter2" not in done.stdout + done.stderr, (text, done)
            assert "syntax error: " in done.stdout + done.stderr, done


def test_all_findings_of_a_file_are_reported_at_once(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text(GOOD.replace("7700", "77000").replace('"10s"; }', '"10sec"; }').replace('topic = "orders"', 'topic = "a b"'))
    code, found, _ = findings(conf)
    assert code == 78 and [(f["line"], f["severity"]) for f in found] == [(2, "error"), (14, "error"), (17, "error")]


def table(folder):
    rows = ["| mistake | `file:line` | severity | cause | hint |", "|---|---|---|---|---|"]
    for m in MISTAKES:
        f = findings(m.write(folder))[1][0]
        cells = [m.name, f"{Path(f['file']).name}:{f['line']}", f["severity"], f["text"].replace(str(folder) + "/", ""), f["hint"] or ""]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as place:
        print(table(Path(place)))
