-- SPDX-License-Identifier: BSD-2-Clause
-- bury.lua - gives claimed jobs of one bucket up: they stay as dead letters.
--
--   KEYS[1]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[2]  zset  :error   job id, scored by time of burial in ms
--   KEYS[3]  hash  :tries   job id -> attempts, reason and last error
--   KEYS[4]  zset  :ttl     a queue's, see lib/queue.lua: a dead letter does not expire
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   then three per job: id, lease (the token of the claim), tries
--
-- Only for the lease that claimed the job. ZREM comes first: see claim.lua.
-- Returns one letter per job:   b buried   x not this lease's any more
-- Repeatable. Cost: O(k log n) for k jobs. Called by store_bury() in bridge/store.c.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local codes = {}
for at = 2, #ARGV, 3 do
  local id = ARGV[at]
  local lease = redis.call('ZSCORE', KEYS[1], id)
  if lease and tonumber(lease) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[4], id)
    redis.call('ZADD', KEYS[2], now, id)
    redis.call('HSET', KEYS[3], id, ARGV[at + 2])
    codes[#codes + 1] = 'b'
  else
    codes[#codes + 1] = 'x'
  end
end
return table.concat(codes)
