-- SPDX-License-Identifier: BSD-2-Clause
-- respawn.lua - makes the oldest dead letters of a queue ready again, with one try each.
local ids = redis.call('ZRANGE', dead, 0, max - 1)
for i, id in ipairs(ids) do
  redis.call('ZREM', dead, id)
  redis.call('ZADD', delay, now_us + i - 1, id)
  local limit, _, since = limit_of(id), tried(id)
  note(id, limit < math.huge and limit - 1 or 0, since, '', 'respawned')
  if ttl_ms > 0 then
    redis.call('ZADD', ttl, now + ttl_ms, id)
  end
end
return reply({ #ids, settle_head() })
