-- SPDX-License-Identifier: BSD-2-Clause
-- lib/claim.lua - when a claim is taken to be made: no two of a bucket at the same ms. So the lease
-- that it gives, a token, is none that an id had before which came, was claimed and left within
-- that ms. The field claim of :sums holds the last one, and claim:NAME the lease of the last one of
-- that claimant. Those of claimants that are gone go when a new one comes. Where an id names one job
-- in all queues of a sink, all of them share one such hash, PREFIX:{SINK}:sums, since a job of that id
-- may have been claimed in another queue.
local CLAIM_AHEAD_MS = 1000 -- of the clock, at most: beyond that it was set back

-- base: of the keys of the hash. And the lease that is noted for field, or false. field: false: none.
local function claim_time(base, now, field)
  local noted = redis.call('HMGET', base .. ':sums', 'claim', field or '')
  local last = tonumber(noted[1] or nil)
  return last and last >= now and last < now + CLAIM_AHEAD_MS and last + 1 or now, noted[2]
end

local function claim_note(base, at, field, lease)
  at = string.format('%.0f', at)
  if field then
    redis.call('HSET', base .. ':sums', 'claim', at, field, string.format('%.0f', lease))
  else
    redis.call('HSET', base .. ':sums', 'claim', at)
  end
end

local function claim_forget(base, now)
  local sums = redis.call('HGETALL', base .. ':sums')
  for i = 1, #sums, 2 do
    if string.sub(sums[i], 1, 6) == 'claim:' and tonumber(sums[i + 1]) <= now then
      redis.call('HDEL', base .. ':sums', sums[i])
    end
  end
end
