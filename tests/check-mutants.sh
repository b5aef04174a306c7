#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-mutants.sh - each text that tests/mutants replaces occurs once in the code, and the tests that must notice
# belong to the default run.
exec "$(dirname "$0")/mutants" --check
