-- SPDX-License-Identifier: BSD-2-Clause
-- count.lua - how many jobs of one or more buckets stand where. Changes nothing.
--
--   KEYS[4i+1]  zset  :delay   KEYS[4i+2]  zset  :unack   KEYS[4i+3]  zset  :error
--   KEYS[4i+4]  zset  :held    jobs that wait behind others of their group (lib/order.lua)
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--
-- Returns of each {waiting, in flight, dead, overdue, head, lease, now, far, slot}, all in one list:
--   waiting in :delay and :held, and far: those of lib/far.lua, whose first slot begins then in ms,
--   or -1; overdue is the part of :delay that is due; head and lease the first score of :delay and
--   :unack, or -1; lease also of what a group waits for (:away of lib/order.lua).
-- Cost: O(log n) each. Called by store_count_many() in bridge/store/store_count.c.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local out, n = {}, 0
for i = 1, #KEYS - 3, 4 do
  local delay, unack = KEYS[i], KEYS[i + 1]
  local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
  local lease = tonumber(redis.call('ZRANGE', unack, 0, 0, 'WITHSCORES')[2] or nil)
  local base = string.sub(delay, 1, -7) -- without ":delay"
  local other = tonumber(redis.call('ZRANGE', base .. ':away', 0, 0, 'WITHSCORES')[2] or nil)
  if other and not (lease and lease < other) then
    lease = other
  end
  local slot = redis.call('ZRANGE', base .. ':far', 0, 0)[1]
  local far = slot and tonumber(redis.call('HGET', base .. ':slots', '#')) or 0
  out[n + 1] = far + redis.call('ZCARD', delay) + redis.call('ZCARD', KEYS[i + 3])
  out[n + 2] = redis.call('ZCARD', unack)
  out[n + 3] = redis.call('ZCARD', KEYS[i + 2])
  out[n + 4] = redis.call('ZCOUNT', delay, '-inf', now)
  out[n + 5] = tonumber(head or -1)
  out[n + 6] = lease or -1
  out[n + 7] = now
  out[n + 8] = far
  out[n + 9] = tonumber(slot or -1)
  n = n + 9
end
return out
