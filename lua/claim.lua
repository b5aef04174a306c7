-- SPDX-License-Identifier: BSD-2-Clause
-- claim.lua - leases due jobs of one bucket to the caller.
--
--   hash  :pace    '' or name of an instance -> until when the rate is used, us
--
-- In any time t at most rate * t + burst jobs are claimed. :pace stores the time at which the claimed jobs would end
-- if they ran one after another at that rate. It may be ahead of now by the time of the burst.
--
-- If groups keep their order, only jobs due before the first slot of far jobs are claimed: lua/move.lua has not moved
-- that slot completely, and its entries are not sorted by due time.
local MOVE_WAIT_US = 10000
rate = tonumber(rate)
local step_us, ahead_us, used_us, known, beyond
local ROUNDING = 1e-9 -- of a job: the division is not exact
local by_rate, by_flight = math.huge, math.huge -- limits of this claim
if rate then
  step_us = 1000000 / rate
  ahead_us = math.max(burst, 1) * step_us
  known = redis.call('HGET', base .. ':pace', pace_owner)
  -- Limit the time ahead, because the clock or the rate may have changed. The limited time is stored, otherwise no
  -- claim before the old time would get a job.
  used_us = math.min(math.max(tonumber(known or 0), now_us), now_us + ahead_us)
  beyond = tonumber(known or 0) > used_us
  -- now_us + ahead_us would lose fractions of a us, and with a burst of 1 the only job.
  by_rate = math.floor((ahead_us - (used_us - now_us)) / step_us + ROUNDING)
end
if flight_max then
  by_flight = math.max(flight_max - redis.call('ZCARD', unack), 0)
end
local most = math.min(max, by_rate, by_flight)

local slot = by_key and redis.call('ZRANGEBYSCORE', base .. ':far', '-inf', now, 'LIMIT', 0, 1)[1]
local last = slot and '(' .. slot or now
local ids = most > 0 and redis.call('ZRANGEBYSCORE', delay, '-inf', last, 'LIMIT', 0, most) or {}
local taken = 0
local out, out_n = { now, -1, now + lease_ms, 0 }, 4
if #ids > 0 then
  local at = claim_time(now)
  local lease = at + lease_ms
  out[3] = lease
  local tried = redis.call('EXISTS', tries) == 1 and redis.call('HMGET', tries, unpack(ids)) or {}
  local leased, lease_n, bytes = {}, 0, 0
  local lease_text = string.format('%.0f', lease) -- once, because Redis formats a number slowly
  while taken < #ids and bytes <= CLAIM_BYTES do
    local from, upto = taken + 1, math.min(taken + CLAIM_AT_ONCE, #ids)
    local bodies = redis.call('HMGET', pool, unpack(ids, from, upto))
    for i = from, upto do
      local id, body = ids[i], bodies[i - from + 1]
      bytes = bytes + #(body or '')
      if bytes > CLAIM_BYTES and i > 1 then
        break
      end
      taken = i
      out[out_n + 1], out[out_n + 2], out[out_n + 3] = id, body or '', tried[i] or false
      out_n = out_n + 3
      if body then
        leased[lease_n + 1], leased[lease_n + 2] = lease_text, id
        lease_n = lease_n + 2
      else
        redis.call('HDEL', tries, id)
        redis.call('HDEL', base .. ':ended', id)
        order().left(id)
      end
    end
  end
  redis.call('ZREM', delay, unpack(ids, 1, taken))
  claim_note(at, claimant, lease_text)
  call_in_slices('ZADD', unack, leased)
end
if rate or by_flight < math.huge then
  local pace = base .. ':pace'
  if rate and (taken > 0 or beyond) then
    -- Quarters of a us, rounded up, which a Lua number holds exactly.
    used_us = used_us + math.ceil(taken * step_us * 4) / 4
    local all = known and {} or redis.call('HGETALL', pace)
    for at = 1, #all, 2 do
      if tonumber(all[at + 1]) <= now_us then -- of an instance that is gone
        redis.call('HDEL', pace, all[at])
      end
    end
    redis.call('HSET', pace, pace_owner, string.format('%.2f', used_us))
    redis.call('PEXPIRE', pace, math.ceil(ahead_us / 1000) + 1000)
  end
  local due = taken == most and most < max and redis.call('ZCOUNT', delay, '-inf', now) or 0
  if due > 0 and by_flight <= by_rate then
    out[4] = -1
  elseif due > 0 then
    -- Half of the burst, so that the other half remains for the time until the next call arrives.
    local worth = math.max(1, math.floor(math.min(ahead_us / step_us / 2, rate / 200, due)))
    out[4] = math.max(1, math.ceil(used_us + worth * step_us - ahead_us - now_us))
  end
end
out[2] = first_score(delay)
if slot and out[4] == 0 and out[2] >= tonumber(slot) and out[2] <= now then
  out[4] = MOVE_WAIT_US
end
return out
