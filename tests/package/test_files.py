# SPDX-License-Identifier: BSD-2-Clause
"""Checks the files of service and packages, each with the tool that reads it."""
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lib.system import TOP
from lib.tools import tool

BIN = os.environ.get("TARRY_BIN", str(TOP / "build/tarry"))
UNIT = TOP / "etc/systemd/tarry.service"
MOST_EXPOSED = 2.0
VERSION = re.search(r'TARRY_VERSION "(.+)"', (TOP / "bridge/base/version.h").read_text())[1]


def run(*argv, **more):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


def good(*argv, **more):
    code, text = run(*argv, **more)
    assert code == 0, f"{argv} ended with {code}:\n{text}"
    return text


# --- the unit ---

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")


@needs_systemd
def test_the_unit_has_nothing_that_systemd_does_not_know(tmp_path):
    unit = tmp_path / "tarry.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/tarry", BIN))
    assert good("systemd-analyze", "verify", "--man=no", str(unit)) == ""


@needs_systemd
def test_the_unit_is_fenced_in(tmp_path):
    def exposure(text):
        unit = tmp_path / "tarry.service"
        unit.write_text(text)
        report = run("systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit))[1]
        return float(re.search(r"Overall exposure level for tarry.service: ([0-9.]+)", report)[1])

    assert exposure(UNIT.read_text()) <= MOST_EXPOSED
    assert exposure(re.sub(r"(?m)^SystemCallFilter=.*\n", "", UNIT.read_text())) > MOST_EXPOSED


# --- what make builds, and the paths of make install ---

@pytest.mark.parametrize("path", ["sinks/kafka/kafka.o", "lua.o"])
def test_an_object_whose_header_changed_is_built_again_by_each_name_of_its_folder(tmp_path, path):
    good("make", "-s", f"B={tmp_path}", f"{tmp_path}/obj/{path}", cwd=TOP)
    headers = re.findall(r"bridge/\S+\.h", (tmp_path / f"obj/{path}").with_suffix(".d").read_text())
    header = next(name for name in headers if (TOP / name).exists())  # not a generated one
    for folder in (str(tmp_path), os.path.relpath(tmp_path, TOP)):
        argv = ["make", "-n", f"B={folder}", f"{folder}/obj/{path}"]
        assert "up to date" in good(*argv, cwd=TOP)
        assert f"-o {folder}/obj/{path}" in good(*argv, "-W", header, cwd=TOP)



def test_install_puts_everything_where_it_is_looked_for(tmp_path):
    def install(prefix):
        good("make", "-s", f"B={Path(BIN).parent}", f"DESTDIR={tmp_path}", f"PREFIX={prefix}",
             "install", cwd=TOP)

    install("/usr/local")
    for path in ("bin/tarry", "share/man/man1/tarry.1", "share/man/man5/tarry.conf.5",
                 "share/bash-completion/completions/tarry", "share/zsh/site-functions/_tarry",
                 "share/fish/vendor_completions.d/tarry.fish", "lib/sysusers.d/tarry.conf",
                 *(f"share/doc/tarry/{name}" for name in (
                     "LICENSE", "README.md", "bridge/README.md", "openapi.yaml", "examples/orders.conf",
                     "examples/grafana/tarry.json", "examples/prometheus/tarry.rules.yml"))):
        assert (tmp_path / "usr/local" / path).is_file(), path
    unit = (tmp_path / "usr/local/lib/systemd/system/tarry.service").read_text()
    assert "ExecStart=/usr/local/bin/tarry run /etc/tarry/tarry.conf" in unit
    assert "/usr/bin/tarry" not in unit
    conf = tmp_path / "etc/tarry/tarry.conf"
    assert conf.stat().st_mode & 0o777 == 0o640, "it may contain secrets"
    conf.write_text("# the owner's\n")
    install("/usr")
    assert conf.read_text() == "# the owner's\n"
    assert (tmp_path / "usr/lib/systemd/system/tarry.service").read_text() == UNIT.read_text()


def test_the_files_that_the_manual_names_are_installed(tmp_path):
    named = re.findall(r"(?m)^\.It Pa (.+)$", (TOP / "etc/man/tarry.conf.5").read_text())
    good("make", "-s", f"B={Path(BIN).parent}", f"DESTDIR={tmp_path}", "PREFIX=/usr", "install", cwd=TOP)
    assert named and [path for path in named if not (tmp_path / path.lstrip("/")).is_file()] == []


def test_the_example_plugin_builds_from_installed_files(tmp_path):
    good("make", "-s", f"B={Path(BIN).parent}", f"PREFIX={tmp_path}", f"SYSCONFDIR={tmp_path}/etc",
         "install", cwd=TOP)
    example = tmp_path / "share/doc/tarry/examples/plugin"
    good("make", "-s", "-C", str(example), f"TARRY={tmp_path}", "CFLAGS=-Werror")
    conf = tmp_path / "tarry.conf"
    conf.write_text(f'plugins = [ "{example}/lines.so" ];\n'
                    f'sinks:  {{ audit: {{ type = "lines"; file = "{tmp_path}/lines"; }}; }};\n'
                    'routes: { r: { from = "http"; to = "audit"; }; };\n')
    assert ": valid; " in good(str(tmp_path / "bin/tarry"), "check", str(conf))


# --- configurations ---

@pytest.mark.parametrize("path", ["systemd/tarry.conf", "docker/tarry.conf"])
def test_each_configuration_is_good(path):
    assert ": valid; " in good(BIN, "check", str(TOP / "etc" / path))


@pytest.mark.slow  # installs a validator
def test_the_issue_forms_are_valid():
    check = tool("check-jsonschema", "0.39.0", "check-jsonschema")
    folder = TOP / ".github/ISSUE_TEMPLATE"
    for schema, files in (("issue-forms", ["bug.yml", "feature.yml"]), ("issue-config", ["config.yml"])):
        good(check, "--builtin-schema", f"vendor.github-{schema}", *(str(folder / name) for name in files))


# --- versions and the list of components ---

VERSIONED = ("bridge/base/version.h", "etc/helm/Chart.yaml", "etc/kubernetes/tarry.yaml", "etc/asyncapi.yaml",
             "etc/debian/changelog")


def test_make_docs_writes_the_version_into_every_file_that_repeats_it(tmp_path):
    named = good("git", "-C", str(TOP), "grep", "-lF", VERSION, "--", "etc", "bridge").split()
    repeats = {name for name in named if name not in ("etc/package", "etc/openapi.yaml")}  # these show examples
    assert repeats == set(VERSIONED)
    for name in (*VERSIONED, "etc/build/version.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, tmp_path / name)
    good(str(tmp_path / "etc/build/version.sh"))
    assert [name for name in VERSIONED if (tmp_path / name).read_text() != (TOP / name).read_text()] == []
    header = tmp_path / "bridge/base/version.h"
    header.write_text(header.read_text().replace(f'"{VERSION}"', '"7.8.9"'))
    good(str(tmp_path / "etc/build/version.sh"))
    for name in VERSIONED:
        text = (tmp_path / name).read_text()
        assert "7.8.9" in text and (VERSION in text) == (name == "etc/debian/changelog"), name
    lines = (tmp_path / "etc/debian/changelog").read_text().splitlines()
    assert lines[0] == "tarry (7.8.9) unstable; urgency=medium" and lines[6].startswith(f"tarry ({VERSION})")


def test_the_program_reports_its_version_and_those_of_its_libraries():
    lines = good(BIN, "--version").splitlines()
    assert lines[0] == f"tarry {VERSION}"
    for library in ("hiredis", "libcurl", "librdkafka", "libuv", "openssl", "paho-mqtt"):
        assert any(re.fullmatch(rf"  {library} +\d+\.\d+[.0-9]*.*", line) for line in lines), library


@pytest.fixture(scope="module")
def sbom(tmp_path_factory):
    file = tmp_path_factory.mktemp("sbom") / "tarry.spdx.json"
    file.write_text(good(str(TOP / "etc/sbom"), BIN, env={**os.environ, "SOURCE_DATE_EPOCH": "1"}))
    return file


def test_the_sbom_names_the_linked_libraries(sbom):
    document = json.loads(sbom.read_text())
    versions = {package["name"]: package["versionInfo"] for package in document["packages"]}
    assert versions["tarry"] == VERSION
    direct = {relation["relatedSpdxElement"] for relation in document["relationships"]
              if relation.get("comment") == "named by the binary"}
    static = {relation["relatedSpdxElement"] for relation in document["relationships"]
              if relation["relationshipType"] == "STATIC_LINK"}
    assert static == {"SPDXRef-libpaho-mqtt-dev", "SPDXRef-uthash-dev"}
    assert "libpaho-mqtt-dev" in versions and not any(name.startswith("libpaho-mqtt1") for name in versions)
    for package in ("libhiredis", "librdkafka", "libmicrohttpd", "libuv1", "libc6"):
        full = [name for name in versions if name.startswith(package)]
        assert full and f"SPDXRef-{full[0]}" in direct, package
        assert versions[full[0]] == good("dpkg-query", "-W", "-f", "${Version}", full[0])
    assert document["packages"][0]["checksums"][0]["checksumValue"] == \
        hashlib.sha256(Path(BIN).read_bytes()).hexdigest()
    again = good(str(TOP / "etc/sbom"), BIN, env={**os.environ, "SOURCE_DATE_EPOCH": "1"})
    assert again == sbom.read_text(), "the same system must produce the same text"


@pytest.mark.slow  # installs a validator
def test_the_list_of_parts_is_spdx(sbom, tmp_path):
    check = tool("spdx-tools", "0.8.5", "pyspdxtools")
    good(check, "-i", str(sbom))
    document = json.loads(sbom.read_text())
    document["relationships"][0]["relatedSpdxElement"] = "SPDXRef-nothing"
    broken = tmp_path / "broken.spdx.json"
    broken.write_text(json.dumps(document))
    assert run(check, "-i", str(broken))[0] != 0
