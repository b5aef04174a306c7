-- SPDX-License-Identifier: BSD-2-Clause
-- finish.lua - ends jobs of a queue, wherever they stand.
--
--   KEYS, ARGV[1..6]  lib/queue.lua
--   then four per job: id, lease (the token of the delivery; '' whoever has it), reason
--   ('acked', 'deleted'), '' or 'a' only if it has not ended yet or 'f' forget it at once
--
-- With a lease a delivered job may also be ended after it came back: that lease is then noted
-- (lib/lease.lua). Any other is one of an earlier job of that id (see ack.lua).
-- Returns one letter per job, where it stood:   w waiting or ready   f in flight   d dead
--   e ended before   E ended before and left so   x not this lease's   n not there
-- A second run answers e or n. Cost: O(k log n) for k jobs. Called by store_finish() in
-- bridge/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
--#include lib/order.lua
--#include lib/far.lua
local of_route = ARGV[2] == ''
local codes = {}

local function take(id, lease, how)
  if lease ~= '' and tonumber(redis.call('ZSCORE', unack, id) or nil) ~= tonumber(lease) and
    not lease_has_ended(keys, id, lease) and not redis.call('ZSCORE', done, id) then
    return redis.call('HEXISTS', pool, id) == 1 and 'x' or 'n'
  end
  for _, part in ipairs({ { unack, 'f' }, { delay, 'w' }, { dead, 'd' } }) do
    if redis.call('ZREM', part[1], id) == 1 then
      return part[2]
    end
  end
  local _, record = far_find(keys, id)
  if record and far_take(keys, id) == 1 then -- it ends as one that is near
    redis.call('HSET', pool, id, record)
    return 'w'
  elseif of_route then
    return redis.call('HEXISTS', pool, id) == 1 and 'w' or 'n' -- behind others of its group
  end
  if how == 'a' then
    return redis.call('ZSCORE', done, id) and 'E' or 'n'
  end
  return redis.call('ZREM', done, id) == 1 and 'e' or 'n'
end

for at = 7, #ARGV, 4 do
  local id, how = ARGV[at], ARGV[at + 3]
  local attempts, since = tried(id)
  local flies = of_route and redis.call('ZSCORE', unack, id) or nil -- the daemon has it
  local code = take(id, ARGV[at + 1], how)
  if code == 'w' or code == 'f' or code == 'd' or code == 'e' then
    redis.call('ZREM', ttl, id)
    if of_route then
      sums_add(SUM[ARGV[at + 2]], select(2, order_gone(id, flies)))
    elseif code == 'e' and (how == 'f' or keep_ms == 0) then
      forget(id) -- it was counted when it ended
    elseif how == 'f' then
      sums_add(SUM[ARGV[at + 2]], forget(id))
    else
      sums_add(SUM[ARGV[at + 2]], code == 'e' and -1 or 0)
      finish(id, attempts + (code == 'f' and 1 or 0), since, ARGV[at + 2])
    end
  end
  codes[#codes + 1] = code
end
return { head(), table.concat(codes), expired, timed_out, exhausted }
