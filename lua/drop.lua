-- SPDX-License-Identifier: BSD-2-Clause
-- drop.lua - deletes jobs of a queue.
--
--   KEYS, ARGV[1..7]  lib/queue.lua
--   ARGV[8]  'd' the oldest dead letters   'r' ready jobs   'a' all jobs, wherever they stand
--   ARGV[9]  how many at most, of each kind
--
-- Returns {how many, head, how many of them had not ended before}. Cost: O(k log n) for k jobs. Called by store_drop() in
-- bridge/store/store_queue.c, again until it answers 0 where all are meant.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
local n, lived, most = 0, 0, tonumber(ARGV[9])

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
      outdate_all(id, held)
    end
    local bodies = forget(id)
    dropped(key == done and 0 or bodies)
    n = n + 1
  end
end

-- Those of the first slot that is left; it says how many, and is called again until there are none.
local function drop_far()
  local start = slot >= 0 and far.first(keys) or -1
  if start < 0 then
    return
  end
  local front = far.front(keys, start, math.min(most, 1000))
  far.pop(keys, front)
  for _, job in ipairs(front.jobs) do
    forget(job.id)
  end
  dropped(#front.jobs)
  n = n + front.taken
end

if ARGV[8] == 'd' then
  drop(dead, redis.call('ZRANGE', dead, 0, most - 1))
elseif ARGV[8] == 'r' then
  drop(delay, redis.call('ZRANGEBYSCORE', delay, '-inf', now_due, 'LIMIT', 0, most))
else
  for _, key in ipairs({ delay, unack, dead, done }) do
    drop(key, redis.call('ZRANGE', key, 0, most - 1))
  end
  drop_far()
end
return { n, head(), lived, expired, timed_out, exhausted, slot }
