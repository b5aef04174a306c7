-- SPDX-License-Identifier: BSD-2-Clause
-- claim.lua - leases due jobs of one bucket to the caller.
--
--   KEYS[1]  zset  :delay   job id, scored by due time in ms
--   KEYS[2]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[3]  hash  :pool    job id -> encoded job
--   KEYS[4]  hash  :tries   job id -> attempts and last error
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  length of the lease in ms
--   ARGV[3]  how many jobs at most; not more than 1000
--
-- Returns {now, next, lease, id, encoded job, tries or nil, ...}: next is the due time of the
--   first job left in KEYS[1], or -1; lease the end of the lease, which is also its token.
-- An id whose body is missing is taken out of the index and reported with an empty body.
-- ZREM comes before ZADD, so that a server out of memory still lets due jobs leave: it
-- refuses only the first write of a script.
-- Cost: O(k log n) for k jobs. Called by store_claim() in bridge/store.c.
local delay, unack, pool, tries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local lease = now + tonumber(ARGV[2])

local ids = redis.call('ZRANGEBYSCORE', delay, '-inf', now, 'LIMIT', 0, ARGV[3])
local out = { now, -1, lease }
if #ids > 0 then
  local bodies = redis.call('HMGET', pool, unpack(ids))
  local tried = redis.call('EXISTS', tries) == 1 and redis.call('HMGET', tries, unpack(ids)) or {}
  local leased = {}
  for i, id in ipairs(ids) do
    out[#out + 1] = id
    out[#out + 1] = bodies[i] or ''
    out[#out + 1] = tried[i] or false
    if bodies[i] then
      leased[#leased + 1] = lease
      leased[#leased + 1] = id
    end
  end
  redis.call('ZREM', delay, unpack(ids))
  -- In slices: unpack() of more than some thousands fails, and nothing is rolled back then.
  for from = 1, #leased, 1000 do
    redis.call('ZADD', unack, unpack(leased, from, math.min(from + 999, #leased)))
  end
end
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
out[2] = tonumber(head or -1)
return out
