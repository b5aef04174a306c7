# SPDX-License-Identifier: BSD-2-Clause
"""Executes a Dockerfile without Docker: each stage is a folder with a Debian, each RUN uses chroot.
Supports only the instructions of our Dockerfile, and stops at any other."""
import json
import re
import shlex
import shutil

from lib.debs import copy_tree
from lib.system import base, chroot, fresh_root, unpack

BASES = {"debian:12-slim": "bookworm", "debian:13-slim": "trixie"}


def instructions(text):
    """Yields (instruction, arguments), without comments and with joined lines."""
    text = re.sub(r"(?m)^\s*#.*\n", "", text)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            word, rest = line.split(None, 1)
            yield word, rest


class Image:
    def __init__(self, file, context):
        """context: the folder from which COPY copies; made from the files that git does not ignore."""
        copy_tree(context, "/")
        self.context, self.stages, self.said = context, {}, {}
        for word, rest in instructions(file.read_text()):
            do = getattr(self, "do_" + word.lower(), None)
            if do:
                do(rest)
            else:
                assert word in ("USER", "EXPOSE", "VOLUME", "HEALTHCHECK", "ENTRYPOINT", "CMD"), word
                self.said[word] = rest

    def do_from(self, rest):
        image, *named = rest.split(" AS ")
        name = named[0] if named else "final"
        self.root, self.folder, self.said = fresh_root(f"image-{name}"), "/", {}
        self.stages[name] = self.root
        unpack(base(BASES[image]), self.root)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")

    def do_workdir(self, rest):
        self.folder = rest

    def do_copy(self, rest):
        options = dict(o[2:].split("=") for o in rest.split() if o.startswith("--"))
        *sources, to = [word for word in rest.split() if not word.startswith("--")]
        origin = self.stages[options["from"]] if "from" in options else self.context
        target = self.root / to.lstrip("/")
        (target if to.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
        for source in sources:
            found = [self.context] if source == "." else sorted(origin.glob(source.lstrip("/")))
            assert found, f"COPY {rest}: there is no {source}"
            for path in found:
                if path.is_dir():
                    shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
                else:
                    shutil.copy(path, target)
        if "chown" in options:
            chroot(self.root, f"chown {options['chown']} {to} && chmod {options['chmod']} {to}")

    def do_run(self, rest):
        chroot(self.root, f"cd {self.folder} && {rest}")

    def exec_form(self, word):
        """Returns the words of ENTRYPOINT, CMD or HEALTHCHECK ... CMD."""
        return json.loads(self.said[word][self.said[word].index("["):])

    def argv(self):
        return shlex.join(self.exec_form("ENTRYPOINT") + self.exec_form("CMD"))
