-- SPDX-License-Identifier: BSD-2-Clause
-- lib/claim.lua - the time of a claim. Two claims of a bucket never have the same ms, unless the clock is set back by
-- more than CLAIM_AHEAD_MS. So the lease token differs from that of an earlier job with the same id, except if two
-- leases of different lengths end in the same ms. :sums keeps the last time (claim), and the last lease of each
-- claimant (claim:NAME). If ids are global, all queues of a sink share PREFIX:{SINK}:sums: a job may have changed
-- its queue.
local CLAIM_BYTES = 16 * 1024 * 1024 -- limit of bodies in one reply, except a single job
local CLAIM_AT_ONCE = 64 -- bodies read at once: they may exceed the reply
local CLAIM_AHEAD_MS = 1000 -- if the last claim is further ahead, the clock was set back
local claims = (owners and string.sub(owners, 1, -5) or base) .. ':sums'

local function claim_time(at)
  local last = tonumber(redis.call('HGET', claims, 'claim') or nil)
  return last and last >= at and last < at + CLAIM_AHEAD_MS and last + 1 or at
end

local function claim_note(at, ...)
  redis.call('HSET', claims, 'claim', string.format('%.0f', at), ...)
end
