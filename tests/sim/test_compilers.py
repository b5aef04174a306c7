# SPDX-License-Identifier: BSD-2-Clause
"""The same seed has the same story, byte for byte, with gcc and clang: no chance depends on a compiler."""
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SEEDS = range(1, 21)
CLANG = "build/sim-clang"


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed (etc/build/install lint)")
def test_a_seed_has_the_same_story_with_gcc_and_clang():
    subprocess.run(["make", "-s", "-j2", "sim", f"SIM={CLANG}", "CC=clang"], cwd=TOP, check=True)
    for seed in SEEDS:
        stories = []
        for folder in ("build/sim", CLANG):
            subprocess.run([f"{folder}/sim", "1", str(seed)], cwd=TOP, stdout=subprocess.DEVNULL)
            stories.append(TOP / folder / f"story-{seed}")
        ours, theirs = (story.read_bytes() for story in stories)
        assert len(ours) > 1000
        assert ours == theirs, f"{stories[0]} differs from {stories[1]}"
        for story in stories:
            story.unlink()
