-- SPDX-License-Identifier: BSD-2-Clause
-- reap.lua - puts jobs of one bucket back whose lease has ended without a word.
--
--   KEYS[1]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  hash  :tries   job id -> attempts and last error
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  how many jobs at most
--   ARGV[3]  the error to note where none stands yet
--
-- They are due at once, and the claim that was lost counts as an attempt: the number that
-- begins the value in :tries goes up by one. ZREM comes first: see claim.lua.
-- Returns {moved, lease, head}: how many; first end of a lease left in KEYS[1] or -1; due
--   time of the first job in KEYS[2] or -1.
-- Cost: O(k log n) for k jobs. Called by store_reap() in bridge/store.c.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
for _, id in ipairs(ids) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[2], now, id)
  local was = redis.call('HGET', KEYS[3], id)
  local count, rest = string.match(was or '', '^(%d+)(.*)$')
  rest = rest or ('||0|' .. now .. '|' .. now .. '|' .. ARGV[3])
  redis.call('HSET', KEYS[3], id, (tonumber(count or 0) + 1) .. rest)
end
local lease = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
return { #ids, tonumber(lease or -1), tonumber(head or -1) }
