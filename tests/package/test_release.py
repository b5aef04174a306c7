# SPDX-License-Identifier: BSD-2-Clause
"""etc/release in a clean clone: the files of a release fit together, and a second run makes the same bytes."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from lib.system import TOP, sh
from lib.tools import go_tool

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(not shutil.which("dh"), reason="no debhelper here: etc/build/install package")]
VERSION = re.search(r'TARRY_VERSION "(.+)"', (TOP / "bridge/base/version.h").read_text())[1]


def release(folder):
    """Releases the commit of this tree in a clone. Returns the folder with the files."""
    sh("git", "clone", "-q", "--shared", str(TOP), str(folder))
    env = {**os.environ, "DEB_BUILD_OPTIONS": "nocheck parallel=2"}
    for name in ("MAKEFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS", "SOURCE_DATE_EPOCH"):
        env.pop(name, None)
    sh(str(folder / "etc/release"), "--untested", env=env)
    return folder / "build/release" / VERSION


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return release(tmp_path_factory.mktemp("release") / "tree")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def one(folder, pattern):
    found = list(folder.glob(pattern))
    assert len(found) == 1, (pattern, sorted(folder.iterdir()))
    return found[0]


def test_the_checksums_name_every_file(files):
    sh("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=files)
    named = {line.split("  ")[1] for line in (files / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in files.iterdir()} - {"SHA256SUMS"}
    for pattern in ("tarry-*.tar.gz", "tarry-chart-*.tgz", "tarry_*.deb", "tarry-*.spdx.json"):
        assert VERSION in one(files, pattern).name


def test_the_source_archive_contains_the_commit(files):
    with tarfile.open(files / f"tarry-{VERSION}.tar.gz") as archive:
        names = {member.name.removeprefix(f"tarry-{VERSION}/") for member in archive if not member.isdir()}
    assert names == set(sh("git", "-C", str(TOP), "ls-tree", "-r", "--name-only", "HEAD").split("\n")) - {""}


def test_the_chart_needs_no_other_file_of_the_tree(files, tmp_path):
    helm = shutil.which("helm") or go_tool("helm.sh/helm/v3/cmd/helm", "v3.11.3")
    chart = files / f"tarry-chart-{VERSION}.tgz"
    sh(helm, "lint", "--strict", str(chart))
    done = subprocess.run([helm, "template", "shop", str(chart), "--kube-version", "1.30.0", "--set",
                           "prometheusRule.enabled=true,dashboard.enabled=true"], capture_output=True, text=True,
                          check=True)
    assert done.stderr == "" and "alert: " in done.stdout and "tarry.json: " in done.stdout
    shutil.unpack_archive(chart, tmp_path, "gztar")
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


def test_the_list_of_components_is_that_of_the_installed_program(files, tmp_path):
    sh("dpkg-deb", "-x", str(one(files, "tarry_*.deb")), str(tmp_path))
    document = json.loads((files / f"tarry-{VERSION}.spdx.json").read_text())
    assert document["packages"][0]["checksums"][0]["checksumValue"] == digest(tmp_path / "usr/bin/tarry")
    assert document == json.loads((tmp_path / "usr/share/doc/tarry/tarry.spdx.json").read_text())


def test_a_second_run_makes_the_same_bytes(files, tmp_path):
    again = release(tmp_path / "another-place")
    ours = {path.name: digest(path) for path in files.iterdir() if path.suffix not in (".buildinfo", ".changes")}
    del ours["SHA256SUMS"]  # it also names .buildinfo, which contains the path of the build
    assert {name: digest(again / name) for name in ours} == ours
