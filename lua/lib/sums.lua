-- SPDX-License-Identifier: BSD-2-Clause
-- lib/sums.lua - what came into a bucket and what left it, in all; and the end of a script that changes it.
--
--   hash  :sums   stored     jobs that came into :pool, each run that is kept for itself too
--                 delivered, cancelled, expired, exhausted (a queue's, out of tries), replaced,
--                 dropped (deleted by hand, or a second copy of a lost run)
--                            jobs that left :pool, or in a queue ended, whether kept or not
--                 base       jobs that lua/audit.lua has found without sums
--                 repeated   next runs: no entry, the job stays
--                 claim, claim:NAME   the last claim, of all and of NAME, see lib/claim.lua
--
-- Holds before and after every script: base + stored = jobs of :pool that have not ended (are not in
-- :done) + those of lib/far.lua + all that left. A script counts only what it changed, so a second run
-- of it counts nothing; and in one call of HINCRBY per kind, behind its other writes.
local SUMS_KEEP_MS = 24 * 3600 * 1000
local sums = {}

local function sums_add(kind, n)
  sums[kind] = (sums[kind] or 0) + n
end

-- The end of a script that changes jobs. The sums of a queue end a day after its last job, since there
-- may be any number of queues. keys, counts: of another queue.
local function write_notes(of_queue, keys, counts)
  if late_made then
    late_made.write()
  end
  keys = keys or base
  local any = false
  for kind, n in pairs(counts or sums) do
    if n ~= 0 then
      redis.call('HINCRBY', keys .. ':sums', kind, n)
      any = true
    end
  end
  if any and of_queue and redis.call('EXISTS', keys .. ':pool', keys .. ':far') == 0 then
    redis.call('PEXPIRE', keys .. ':sums', SUMS_KEEP_MS)
  end
end
