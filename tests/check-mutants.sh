#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-mutants.sh - checks that the code contains each text that tests/mutants and tests/sim/mutants replace, and that
# the tests that must fail belong to the default run.
set -eu
tests=$(dirname "$0")
"$tests/mutants" --check
"$tests/sim/mutants" --check
