-- SPDX-License-Identifier: BSD-2-Clause
-- lib/sums.lua - what came into a bucket and what left it, in all.
--
--   hash  :sums   stored     jobs that came into :pool, each run that is kept for itself too
--                 delivered, cancelled, expired, exhausted (a queue's, out of tries), replaced,
--                 dropped (deleted by hand, or a second copy of a lost run)
--                            jobs that left :pool, or in a queue ended, whether kept or not
--                 base       jobs that were there before the sums were, or that lua/audit.lua
--                            has found without them
--                 repeated   next runs: no entry, the job stays
--                 claim, claim:NAME   the last claim, of all and of NAME, see lib/claim.lua
--
-- Holds before and after every script: base + stored = jobs of :pool that have not ended (are
-- not in :done) + those of lib/far.lua + all that left. A script counts only what it changed, so a second run of it
-- counts nothing; and in one call of HINCRBY per kind, behind its other writes (claim.lua says
-- why). The sums of a queue end a day after its last job, since there may be any number of queues.
local SUMS_KEEP_MS = 24 * 3600 * 1000
local sums = {}

local function sums_add(kind, n)
  sums[kind] = (sums[kind] or 0) + n
end

-- base: of the keys. of_queue: they end with the last job.
local function sums_note(base, of_queue)
  local any = false
  for kind, n in pairs(sums) do
    if n ~= 0 then
      redis.call('HINCRBY', base .. ':sums', kind, n)
      any = true
    end
  end
  if any and of_queue and redis.call('EXISTS', base .. ':pool', base .. ':far') == 0 then
    redis.call('PEXPIRE', base .. ':sums', SUMS_KEEP_MS)
  end
  sums = {}
end
