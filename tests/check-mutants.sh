#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# check-mutants.sh - each text that tests/mutants replaces stands in the code, once.
exec "$(dirname "$0")/mutants" --check
