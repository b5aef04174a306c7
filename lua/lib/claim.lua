-- SPDX-License-Identifier: BSD-2-Clause
-- lib/claim.lua - the time of a claim. Two claims of a bucket never have the same ms, so the lease
-- token differs from every token of an earlier job with the same id. The field claim of :sums
-- stores the last time. If ids are global, all queues of a sink share one hash, PREFIX:{SINK}:sums,
-- because an earlier job of the id may have been in another queue. The field claim:NAME of :sums
-- stores the last lease of each claimant (claim.lua). reap.lua deletes expired ones.
local CLAIM_AHEAD_MS = 1000 -- if the last claim is further ahead, the clock was set back
local claims = (owners and string.sub(owners, 1, -5) or base) .. ':sums'

local function claim_time(at)
  local last = tonumber(redis.call('HGET', claims, 'claim') or nil)
  return last and last >= at and last < at + CLAIM_AHEAD_MS and last + 1 or at
end

local function claim_note(at, ...)
  redis.call('HSET', claims, 'claim', string.format('%.0f', at), ...)
end
