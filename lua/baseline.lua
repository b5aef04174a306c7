-- SPDX-License-Identifier: BSD-2-Clause
-- baseline.lua - makes the sums of a bucket agree with what stands in it.
--
--   KEYS[1]  hash  :pool    job id -> encoded job; the other keys are made of it
--
-- For a bucket that is older than its sums. Atomic: whatever was there counts as base.
-- Returns 1 if it had to, 0 if they agreed. Cost: O(1). Called by store_baseline() in
-- bridge/store/store_audit.c.
--#include lib/sums_gap.lua
local base = string.sub(KEYS[1], 1, -6) -- without ":pool"
local gap = sums_gap(base)
if gap == 0 then
  return 0
end
redis.call('HDEL', base .. ':sums', '') -- never there; refused for lack of memory is a first write only
redis.call('HINCRBY', base .. ':sums', 'base', gap)
return 1
