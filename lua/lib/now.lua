-- SPDX-License-Identifier: BSD-2-Clause
-- lib/now.lua - when the call is made, for scripts that always need to know.
now_us = clock_us()
now = math.floor(now_us / 1000)
