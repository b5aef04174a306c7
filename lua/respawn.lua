-- SPDX-License-Identifier: BSD-2-Clause
-- respawn.lua - makes the oldest dead letters of a queue ready again, with one try each.
--
--   KEYS, ARGV[1..7]  lib/queue.lua
--   ARGV[8]  how many at most   ARGV[9]  how long they live from now in ms; 0: for ever
--
-- Returns {how many, head}. Cost: O(k log n) for k jobs. Called by store_respawn() in
-- bridge/store/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
local n = 0
for i, id in ipairs(redis.call('ZRANGE', dead, 0, tonumber(ARGV[8]) - 1)) do
  redis.call('ZREM', dead, id)
  redis.call('ZADD', delay, now_us + i - 1, id)
  local limit, _, since = limit_of(id), tried(id)
  note(id, limit < math.huge and limit - 1 or 0, since, '', 'respawned')
  if tonumber(ARGV[9]) > 0 then
    redis.call('ZADD', ttl, now + tonumber(ARGV[9]), id)
  end
  n = n + 1
end
return { n, head(), expired, timed_out, exhausted, slot }
