#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""man.py PAGE TARRY - prints a page generated from the help of TARRY: the manual page tarry.1 or tarry.conf.5 (mdoc),
or cli.md, the reference of the command line."""
import re
import subprocess
import sys
import textwrap

DATE = "November 22, 2026"
COMMAND_COLUMN, FLAG_COLUMN = 34, 24  # of the text in `tarry help`
# Listed once for all commands.
COMMON = ["--json", "--table", "--url", "--token-file", "--ca-file", "--cert-file", "--key-file", "--help"]


def ask(*args):
    return subprocess.run([sys.argv[2], *args], check=True, capture_output=True, text=True).stdout.splitlines()


def entries(lines, column):
    """Returns (title, text) of each entry. A text may continue on the next lines, indented to the column."""
    for line in lines:
        if line[:column].strip():
            yield (found := [line[:column].strip(), line[column:]])
        else:
            found[1] += " " + line[column:]


def one_line(text):
    return " ".join(text.split())


def escaped(line):
    line = line.replace("\\", "\\e").replace("--", "\\--")
    return "\\&" + line if line[0] in ".'" else line


def wrapped(text):
    return "\n".join(map(escaped, textwrap.wrap(text, 76, break_long_words=False, break_on_hyphens=False)))


def paragraph(text):
    """Returns a text with one sentence per line, as roff requires."""
    text += "" if text[-1] in ".?" else "."
    return "\n".join(wrapped(s[0].upper() + s[1:]) for s in re.split(r"(?<=\.) ", text))


def head(name, section, line):
    return (f'.\\" SPDX-License-Identifier: BSD-2-Clause\n.\\" Made by: etc/build/man.py {name}.{section}\n'
            f".Dd {DATE}\n.Dt {name.upper()} {section}\n.Os\n.Sh NAME\n.Nm {name}\n.Nd {line}")


def command_macro(title):
    """tarry jobs list ROUTE -> .Cm jobs list Ar ROUTE"""
    words = title.split()[1:]
    names = [word for word in words if re.fullmatch("[a-z-]+", word)]
    return " ".join(["Cm", *names, *(["Ar"] if words != names else []), *words[len(names):]])


def flag_item(title, text):
    name, _, value = title.partition(" ")
    return f".It Fl \\-{name[2:]}{' Ar ' + value if value else ''}\n{paragraph(text)}"


def command(title, common):
    """Returns the whole text of a command and its own flags. Adds its other flags to common."""
    lines = ask("help", *re.findall(r" ([a-z-]+)(?= |$)", title))
    options = lines.index("options:")
    _, whole = list(entries(lines[1:options], COMMAND_COLUMN))[0]
    flags = [flag for flag in entries(lines[options + 1:], FLAG_COLUMN) if flag[0] != "--"]
    common.update((title.split()[0], (title, text)) for title, text in flags)
    return whole, [flag for flag in flags if flag[0].split()[0] not in COMMON]


def command_item(title, text, common):
    whole, own = command(title, common)
    own = [flag_item(*flag) for flag in own]
    out = [f".It {command_macro(title)}", paragraph(text)]
    if whole != text:
        out.append(paragraph(whole[len(text) + 1:]))
    return "\n".join([*out, *([".Bl -tag -width Ds -compact", *own, ".El"] if own else [])])


def commands_and_codes():
    lines = ask("help")
    codes = next(i for i, line in enumerate(lines) if line.startswith("tarry COMMAND"))
    return list(entries(lines[2:codes], COMMAND_COLUMN)), list(entries(lines[codes + 1:], 7))


def tarry_1():
    commands, codes = commands_and_codes()
    common = {}
    items = [command_item(*command, common) for command in commands]
    out = [head("tarry", "1", "deliver messages later"), ".Sh SYNOPSIS",
           *(f".Nm\n.{command_macro(title)}\n.Op Ar options" for title, _ in commands),
           r""".Sh DESCRIPTION
.Nm
accepts messages for later delivery from Kafka, RabbitMQ, MQTT and HTTP,
stores them in Redis until they are due,
and delivers them to Kafka, RabbitMQ, MQTT, HTTP callbacks,
or queues that consumers pull from.
Most commands ask a running daemon over its admin listener.
They print tables; with
.Fl \-json ,
JSON.
.Pp
The commands are:
.Bl -tag -width Ds""", *items, r""".El
.Pp
Options of all commands that ask a daemon or show something:
.Bl -tag -width Ds""", *(flag_item(*common[name]) for name in COMMON), r""".El
.Pp
The arguments after
.Fl \-
are not options, so an id or a target can begin with any character.
.Sh ENVIRONMENT
.Bl -tag -width Ds
.It Ev TARRY_URL
The URL of the daemon; the option
.Fl \-url
overrides it.
.It Ev TARRY_TOKEN
The token; the option
.Fl \-token-file
overrides it.
.It Ev TARRY_FORMAT
The output format if no option sets it:
.Cm table
(the default) or
.Cm json .
.It Ev NO_COLOR
If it is set, tables have no colours.
.It Ev COLUMNS
If standard output is not a terminal, the width that
.Cm routes
must fit; for example, watch sets it.
.El
.Sh EXIT STATUS
.Bl -tag -width Ds -compact""",
           *(f".It {code}\n{paragraph(text)}" for code, text in codes), r""".El
.Sh EXAMPLES
Show the state of the daemon, its routes and pending jobs:
.Bd -literal -offset indent
tarry status
tarry routes
tarry jobs list orders
.Ed
.Pp
Check whether a route would accept a message, and when it would be delivered:
.Bd -literal -offset indent
tarry explain orders \-\-after 1h30m \-\-header "x-tenant: a" '{"n":1}'
.Ed
.Pp
Stop deliveries while the receiver is being repaired:
.Bd -literal -offset indent
tarry pause orders
tarry resume orders
.Ed
.Sh SEE ALSO
.Xr tarry.conf 5"""]
    return "\n".join(out)


def group(lines):
    """Formats a group of `tarry options`: its title, then options of one line, each with its help below."""
    title, text = lines[0].split("   ", 1)
    title = title.replace('"', "\\(dq")
    out = [f'.Ss "{title}\\&"', paragraph(text)]
    options = re.findall(r"^  (\S+) +(\S.*)\n((?:      .*\n)*)", "\n".join([*lines[1:], ""]), re.M)
    items = [f".It Ic {name}\n{paragraph(one_line(help_))}\n.br\n{wrapped(one_line(facts))}"
             for name, facts, help_ in options]
    return "\n".join([*out, *([".Bl -tag -width Ds", *items, ".El"] if items else [])])


def tarry_conf_5():
    groups = "\n".join(ask("options")).strip().split("\n\n")
    return "\n".join([
        head("tarry.conf", "5", "configuration of tarry"),
        ".Sh DESCRIPTION\nThe configuration file of\n.Xr tarry 1 .",
        paragraph("The file has the syntax of libconfig: groups in braces, settings that end with a semicolon, lists "
                  "in brackets, strings in quotes. In a string, ${env:NAME}, ${env:NAME:-else}, ${file:PATH} and "
                  "${cred:NAME} are replaced by the value of an environment variable, the content of a file, or a "
                  "systemd credential."),
        ".Pp",
        paragraph('Durations are written "1500ms", "30s", "1h30m", "7d"; sizes "256KiB", "64MiB". The command tarry '
                  "check FILE lists every error in a file with its line."),
        ".Sh OPTIONS", *(group(lines.splitlines()) for lines in groups), """.Sh FILES
.Bl -tag -width Ds
.It Pa /etc/tarry/tarry.conf
The configuration of the service.
.It Pa /usr/share/doc/tarry/examples/tarry.conf
Every option with its default.
.El
.Sh SEE ALSO
.Xr tarry 1"""])


def sentences(text):
    return re.sub(r"(^|(?<=\. ))[a-z]", lambda found: found[0].upper(), one_line(text).rstrip(".")) + "."


def md_table(head, rows):
    return [f"| {head} | |", "|---|---|",
            *(f"| `{name}` | {sentences(text).replace('|', chr(92) + '|')} |" for name, text in rows), ""]


def cli_md():
    commands, codes = commands_and_codes()
    common, parts = {}, []
    for title, text in commands:
        whole, own = command(title, common)
        all_of_it = " ".join(map(sentences, filter(None, (text, whole[len(text) + 1:]))))
        parts += [f"### `{title}`", "", textwrap.fill(all_of_it, 120, break_on_hyphens=False), ""]
        parts += md_table("option", own) if own else []
    return "\n".join([
        "# Command line", "",
        "`make docs` generates this page from the help of `tarry`. It describes every command, option and exit code.",
        "[Operate a running daemon](../how-to/operate.md) describes how to use them.", "",
        "## Exit codes", "", *md_table("code", codes),
        "## Environment", "",
        *md_table("variable", [("TARRY_URL", "the URL of the daemon; `--url` overrides it"),
                               ("TARRY_TOKEN", "the token; `--token-file` overrides it"),
                               ("TARRY_FORMAT", "`table` (the default) or `json`; `--table` and `--json` override it"),
                               ("NO_COLOR", "if it is set, tables have no colours"),
                               ("COLUMNS", "the width of tables if standard output is not a terminal")]),
        "## Options of most commands", "",
        *md_table("option", [common[name] for name in COMMON]),
        "## Commands", "", *parts]).rstrip()


print({"tarry.1": tarry_1, "tarry.conf.5": tarry_conf_5, "cli.md": cli_md}[sys.argv[1]]())
