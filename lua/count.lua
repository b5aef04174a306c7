-- SPDX-License-Identifier: BSD-2-Clause
-- count.lua - how many jobs of one bucket stand where. Changes nothing.
--
--   KEYS[1]  zset  :delay   KEYS[2]  zset  :unack   KEYS[3]  zset  :error
--   KEYS[4]  zset  :held    jobs that wait behind others of their group (lib/order.lua)
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--
-- Returns {waiting, in flight, dead, overdue, head, lease, now, far, slot}: waiting in KEYS[1] and
--   KEYS[4], and far: those of lib/far.lua, whose first slot begins then in ms, or -1;
--   overdue is the part of KEYS[1] that is due; head and lease the first score of KEYS[1] and
--   KEYS[2], or -1; lease also of what a group waits for (:away of lib/order.lua).
-- Cost: O(log n). Called by store_count() in bridge/store_call.c.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local lease = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or nil)
local away = string.gsub(KEYS[1], 'delay$', 'away')
local other = tonumber(redis.call('ZRANGE', away, 0, 0, 'WITHSCORES')[2] or nil)
if other and not (lease and lease < other) then
  lease = other
end
local base = string.sub(KEYS[1], 1, -7) -- without ":delay"
local slot = redis.call('ZRANGE', base .. ':far', 0, 0)[1]
local far = slot and tonumber(redis.call('HGET', base .. ':slots', '#')) or 0
return {
  far + redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[4]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('ZCARD', KEYS[3]),
  redis.call('ZCOUNT', KEYS[1], '-inf', now),
  tonumber(head or -1),
  lease or -1,
  now,
  far,
  tonumber(slot or -1),
}
