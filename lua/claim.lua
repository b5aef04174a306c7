-- SPDX-License-Identifier: BSD-2-Clause
-- claim.lua - leases due jobs of one bucket to the caller.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[4]  zset  :error   KEYS[5]  hash  :tries   job id -> attempts and last error
--   KEYS[6]  hash  :pace    '' or name of an instance -> until when the rate is used, us
--   and  hash  :sums    lib/claim.lua
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  length of the lease in ms
--   ARGV[3]  how many jobs at most; not more than 1000. Their bodies are BYTES_MAX at most, or one job
--   ARGV[4]  field of :sums of the claimant, '' none: its last lease is noted, so that it can ask for
--            the jobs of a claim whose answer was lost (reap.lua)
--   and, where there are limits: ARGV[5] jobs per second, '' any   ARGV[6] of them at once
--   ARGV[7]  field of KEYS[6]   ARGV[8] jobs of KEYS[3] at most, '' any
--
-- Returns {now, next, lease, wait, id, encoded job, tries or nil, ...}: next is the due time of
--   the first job left in KEYS[2], or -1; lease the end of the lease, which is also its token;
--   wait: so many us until it is worth asking for more of what is due, -1: not before one of
--   KEYS[3] has left, 0: no limit holds anything back.
-- An id whose body is missing is taken out of the index and reported with an empty body.
-- In any time t no more than rate * t + burst jobs are claimed: KEYS[6] holds the time at which
-- those claimed so far would end if they were done one by one at that rate; it may lie ahead
-- by as much as the burst takes.
-- ZREM comes before ZADD, so that a server out of memory still lets due jobs leave: it
-- refuses only the first write of a script.
-- Cost: O(k log n) for k jobs. Called by store_claim() in bridge/store/store_call.c.
--#include lib/claim.lua
local pool, delay, unack, dead, tries, pace = unpack(KEYS)
local now_us = tonumber(ARGV[1]) and ARGV[1] * 1000
if not now_us then
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end
local now = math.floor(now_us / 1000)
local lease = now + tonumber(ARGV[2])
local most = tonumber(ARGV[3])

local rate = tonumber(ARGV[5])
local step_us, ahead_us, used_us, known
local by_rate, by_flight = math.huge, math.huge -- so many may go
if rate then
  step_us = 1000000 / rate
  ahead_us = math.max(tonumber(ARGV[6]), 1) * step_us
  known = redis.call('HGET', pace, ARGV[7])
  -- Not further ahead, whatever the clock or the rate were before.
  used_us = math.min(math.max(tonumber(known or 0), now_us), now_us + ahead_us)
  by_rate = math.floor((now_us + ahead_us - used_us) / step_us)
end
if tonumber(ARGV[8]) then
  by_flight = math.max(tonumber(ARGV[8]) - redis.call('ZCARD', unack), 0)
end
most = math.min(most, by_rate, by_flight)

local BYTES_MAX, AT_ONCE = 16 * 1024 * 1024, 64
local ids = most > 0 and redis.call('ZRANGEBYSCORE', delay, '-inf', now, 'LIMIT', 0, most) or {}
local taken = 0
local out = { now, -1, lease, 0 }
if #ids > 0 then
  local bucket = string.sub(pool, 1, -6) -- without ":pool"
  local at = claim_time(bucket, now)
  lease = at + tonumber(ARGV[2])
  out[3] = lease
  local tried = redis.call('EXISTS', tries) == 1 and redis.call('HMGET', tries, unpack(ids)) or {}
  local leased, lost, bytes = {}, {}, 0
  -- Some bodies at a time: they may be large.
  while taken < #ids and bytes <= BYTES_MAX do
    local from, upto = taken + 1, math.min(taken + AT_ONCE, #ids)
    local bodies = redis.call('HMGET', pool, unpack(ids, from, upto))
    for i = from, upto do
      local id, body = ids[i], bodies[i - from + 1]
      bytes = bytes + #(body or '')
      if bytes > BYTES_MAX and i > 1 then
        break
      end
      taken = i
      out[#out + 1] = id
      out[#out + 1] = body or ''
      out[#out + 1] = tried[i] or false
      if body then
        leased[#leased + 1] = lease
        leased[#leased + 1] = id
      else
        lost[#lost + 1] = id
      end
    end
  end
  redis.call('ZREM', delay, unpack(ids, 1, taken))
  if ARGV[4] ~= '' then
    redis.call('HSET', bucket .. ':sums', 'claim', string.format('%.0f', at), ARGV[4], string.format('%.0f', lease))
  else
    claim_note(bucket, at)
  end
  -- In slices: unpack() of more than some thousands fails, and nothing is rolled back then.
  for from = 1, #leased, 1000 do
    redis.call('ZADD', unack, unpack(leased, from, math.min(from + 999, #leased)))
  end
  if #lost > 0 then
--#include lib/order.lua
    for _, id in ipairs(lost) do
      order_gone(id)
    end
  end
end
if rate or by_flight < math.huge then
  -- Notes that so many have gone, in quarters of a us, rounded up: that is what a number of Lua
  -- holds. Fields of instances that are gone go too.
  local function use(count)
    used_us = used_us + math.ceil(count * step_us * 4) / 4
    local all = known and {} or redis.call('HGETALL', pace)
    for at = 1, #all, 2 do
      if tonumber(all[at + 1]) <= now_us then
        redis.call('HDEL', pace, all[at])
      end
    end
    redis.call('HSET', pace, ARGV[7], string.format('%.2f', used_us))
    redis.call('PEXPIRE', pace, math.ceil(ahead_us / 1000) + 1000)
  end

  -- For how long it is not worth asking again.
  local function wait_us(count)
    if count < most or most == tonumber(ARGV[3]) then
      return 0
    end
    local due = redis.call('ZCOUNT', delay, '-inf', now)
    if due == 0 then
      return 0
    elseif by_flight <= by_rate then
      return -1
    end
    -- Half of the burst: what comes while the caller is on its way must not be lost at the brim.
    local worth = math.max(1, math.floor(math.min(ahead_us / step_us / 2, rate / 200, due)))
    return math.max(1, math.ceil(used_us + worth * step_us - ahead_us - now_us))
  end

  if rate and taken > 0 then
    use(taken)
  end
  out[4] = wait_us(taken)
end
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
out[2] = tonumber(head or -1)
return out
