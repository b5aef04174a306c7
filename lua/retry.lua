-- SPDX-License-Identifier: BSD-2-Clause
-- retry.lua - puts claimed jobs of one bucket back, to be claimed again later.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[4]  zset  :error   KEYS[5]  hash  :tries   job id -> attempts and last error
--   ARGV     five per job: id, lease (the token of the claim), next due in ms, tries ('': it has
--            none any more), encoded job of its next run, or '' to try this one again
--
-- Only for the lease that claimed the job: a late word of an earlier claim changes nothing.
-- A job that is tried again stays in front of its group; a next run is a new job of that group
-- (lib/order.lua). ZREM comes first: see claim.lua.
-- Returns {head, codes}: due time of the first job in KEYS[2]; one letter per job:
--   r put back   c dropped: it was cancelled meanwhile   x not this lease's any more
-- A second run answers x. Cost: O(k log n) for k jobs. Called by store_retry() and
-- store_repeat() in bridge/store_call.c.
--#include lib/order.lua
local pool, delay, unack, dead, tries = unpack(KEYS)

-- The next run, with nothing of this one.
local function run_again(id, due, record)
  redis.call('HSET', pool, id, record)
  local group = order_group(id)
  order_left(id)
  order_place(id, due, group)
end

local codes = {}
for at = 1, #ARGV, 5 do
  local id, due, note, record = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local lease = redis.call('ZSCORE', unack, id)
  local code = 'x'
  if lease and tonumber(lease) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', unack, id)
    if order_cancelled(redis.call('HGET', tries, id)) then
      order_gone(id)
      code = 'c'
    else
      code = 'r'
      if note ~= '' then
        redis.call('HSET', tries, id, note)
      elseif redis.call('HDEL', tries, id) == 1 then
        redis.call('HDEL', base .. ':ended', id)
      end
      if record ~= '' then
        run_again(id, due, record)
      else
        redis.call('ZADD', delay, due, id)
      end
    end
  end
  codes[#codes + 1] = code
end
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
return { tonumber(head or -1), table.concat(codes) }
