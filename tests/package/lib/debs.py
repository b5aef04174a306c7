# SPDX-License-Identifier: BSD-2-Clause
"""Builds the package in a minimal Debian, with the packages of its Build-Depends and nothing else."""
import hashlib
import re
import shutil

from lib.system import BUILD, TOP, chroot, sh, system

NEXT = "0.1.1"
SITE = "The mail room <ops@site.example>"  # the maintainer of that build
# Debian 12 also asks for an init script. Debian 13 does not, and would reject an override of ours as unknown.
# The service requires systemd; without it, use tarry run FILE.
SUPPRESSED = {"bookworm": "--suppress-tags package-supports-alternative-init-but-no-init.d-script",
              "trixie": ""}


def build_depends():
    control = (TOP / "etc/debian/control").read_text()
    fields = re.search(r"(?m)^Build-Depends:((?: .*\n)(?:\s+.*\n)*)", control)[1]
    return ", ".join(re.sub(r" *<!nocheck>", "", part).strip() for part in fields.split(","))


def copy_tree(root, to):
    """Copies the files that git does not ignore, including uncommitted changes."""
    folder = root / to.lstrip("/")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = sh("git", "-C", str(TOP), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    there = [name for name in files.split("\0") if name and (TOP / name).exists()]
    sh("sh", "-c", f"tar -C '{TOP}' --null -T - -cf - | tar -C '{folder}' -xf -",
       input="\0".join(there))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Debs:
    """this and next: packages of the tree's version and of a newer one. again: this, built a second
    time in another folder."""

    def __init__(self, dist):
        self.dist = dist
        self.root = system(dist, "build", build_depends() + ", lintian, build-essential")
        self.out = BUILD / f"{dist}-debs"
        shutil.rmtree(self.out, ignore_errors=True)
        self.this = self.build("/tarry", "this")
        self.again = self.build("/another/place/of-the-tree", "again", "DEB_BUILD_OPTIONS=nocheck")
        self.next = self.build("/tarry", "next", f"DEB_BUILD_OPTIONS=nocheck VERSION={NEXT} "
                                                 f"MAINTAINER='{SITE}'")

    def build(self, place, name, env=""):
        copy_tree(self.root, place)
        log = chroot(self.root, f"cd '{place}' && {env} etc/package /out/{name}")
        made = self.out / name
        shutil.copytree(self.root / "out" / name, made)
        (made / "build.log").write_text(log)
        return next(made.glob("tarry_*.deb"))

    def lintian(self):
        return chroot(self.root, f"lintian -EviI --pedantic --allow-root {SUPPRESSED[self.dist]} "
                                 "/out/this/*.changes")
