#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-mutants.sh - checks that each text that tests/mutants replaces occurs once in the code, and that the
# tests that must fail belong to the default run.
exec "$(dirname "$0")/mutants" --check
