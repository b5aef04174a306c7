-- SPDX-License-Identifier: BSD-2-Clause
-- lib/now.lua - sets the time of the call, for scripts that always need it.
now_us = clock_us()
now = math.floor(now_us / 1000)
