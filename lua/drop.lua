-- SPDX-License-Identifier: BSD-2-Clause
-- drop.lua - deletes jobs of a queue. If it returns max or more, there may be further ones.
local n, lived = 0, 0

local function dropped(count)
  sums_add('dropped', count)
  lived = lived + count
end

local function drop(key, ids)
  for _, id in ipairs(ids) do
    local held = key == unack and redis.call('ZSCORE', unack, id)
    redis.call('ZREM', key, id)
    redis.call('ZREM', ttl, id)
    if key ~= done then
      outdate(id, '', held)
    end
    local bodies = forget(id)
    dropped(key == done and 0 or bodies)
    n = n + 1
  end
end

-- Deletes far jobs, slot by slot.
local function drop_far()
  local taken = 0
  local start = slot >= 0 and far().first() or -1
  while start >= 0 and taken < max do
    local front = far_moves().front(start, math.min(max - taken, 1000))
    far_moves().pop(front)
    for _, job in ipairs(front.jobs) do
      forget(job.id)
    end
    dropped(#front.jobs)
    taken = taken + front.taken
    start = far().first()
  end
  n = n + taken
end

if which == WHICH_DEAD then
  drop(dead, redis.call('ZRANGE', dead, 0, max - 1))
elseif which == WHICH_READY then
  drop(delay, redis.call('ZRANGEBYSCORE', delay, '-inf', now_due, 'LIMIT', 0, max))
else
  for _, key in ipairs({ delay, unack, dead, done }) do
    drop(key, redis.call('ZRANGE', key, 0, max - 1))
  end
  drop_far()
end
return reply({ n, settle_head(), lived })
