-- SPDX-License-Identifier: BSD-2-Clause
-- drop.lua - deletes jobs of a queue. To delete all, the caller repeats the call until it returns 0.
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

-- Deletes the far jobs of the first slot and returns their number. The caller repeats it until none is left.
local function drop_far()
  local start = slot >= 0 and far().first() or -1
  if start < 0 then
    return
  end
  local front = far_moves().front(start, math.min(max, 1000))
  far_moves().pop(front)
  for _, job in ipairs(front.jobs) do
    forget(job.id)
  end
  dropped(#front.jobs)
  n = n + front.taken
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
