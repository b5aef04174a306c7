-- SPDX-License-Identifier: BSD-2-Clause
-- lib/claim.lua - when a claim is taken to be made: no two of a bucket at the same ms. So the lease
-- that it gives, a token, is none that an id had before which came, was claimed and left within
-- that ms. The field claim of :sums holds the last one. Where an id names one job in all queues of a
-- sink, all of them share one such hash, PREFIX:{SINK}:sums, since a job of that id may have been
-- claimed in another queue.
-- Of each claimant (claim.lua) :sums has a field claim:NAME, with the lease of its last claim; reap.lua
-- forgets those that have ended.
local CLAIM_AHEAD_MS = 1000 -- of the clock, at most: beyond that it was set back
local claims = (owners and string.sub(owners, 1, -5) or base) .. ':sums'

local function claim_time(at)
  local last = tonumber(redis.call('HGET', claims, 'claim') or nil)
  return last and last >= at and last < at + CLAIM_AHEAD_MS and last + 1 or at
end

local function claim_note(at, ...)
  redis.call('HSET', claims, 'claim', string.format('%.0f', at), ...)
end
