-- SPDX-License-Identifier: BSD-2-Clause
-- reap.lua - puts jobs of one bucket back whose lease has ended without an outcome, or whose claim was
-- lost.
--
-- If Redis made the lost claim, its lease is the one that is noted for the claimant. Nobody has
-- heard of its jobs, so they go back untried; those whose lease has ended stay for another call.
--
-- Jobs go back due at once, and the claim that was lost counts as an attempt: the number that
-- begins the value in :tries goes up by one. A slot at the rate of a target (paced) is used up.
-- The lease is noted, since its holder may still report that it has delivered (ack.lua). A job
-- that was cancelled meanwhile goes. One that does not count any more (:away of lib/order.lua) is
-- waited for no longer. Cost: O(k log n) for k jobs.
--#include lib/bucket.lua
--#include lib/now.lua
--#include lib/sums.lua
--#include lib/head.lua
--#include lib/late.lua
--#include lib/order.lua
local lost = claimant ~= '' and redis.call('HGET', base .. ':sums', claimant)
lost = lost and tonumber(lost) ~= known and lost

local function put_back(id, lease, was)
  redis.call('ZADD', delay, now, id)
  if lost then
    return
  end
  local count, rest = string.match(was or '', '^(%d+)(.*)$')
  rest = rest and string.gsub(rest, '^|paced|', '||') or ('||0/0/0|' .. now .. '|' .. now .. '|' .. why)
  redis.call('HSET', tries, id, (tonumber(count or 0) + 1) .. rest)
  note_lease(id, lease)
end

local dropped, ids = 0, {}
if lost or claimant == '' then
  ids = redis.call('ZRANGEBYSCORE', unack, lost or '-inf', lost or now, 'WITHSCORES', 'LIMIT', 0, max)
end
for at = 1, #ids, 2 do
  local id = ids[at]
  redis.call('ZREM', unack, id)
  local was = redis.call('HGET', tries, id)
  if was and string.find(was, IS_CANCELLED) then
    outdate(id, '', ids[at + 1]) -- who has it, or had it, may have reported an outcome, unheard
    sums_add('cancelled', forget(id))
    leave_group(id)
    dropped = dropped + 1
  else
    put_back(id, ids[at + 1], was)
  end
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', '-inf', now, 'LIMIT', 0, max)) do
  order().came_back(member)
end
write_notes()
if claimant == '' then -- claimants whose last lease has ended: they may be gone
  local all = redis.call('HGETALL', base .. ':sums')
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 6) == 'claim:' and tonumber(all[at + 1]) <= now then
      redis.call('HDEL', base .. ':sums', all[at])
    end
  end
end
local lease = tonumber(redis.call('ZRANGE', unack, 0, 0, 'WITHSCORES')[2] or nil)
local away = tonumber(redis.call('ZRANGE', base .. ':away', 0, 0, 'WITHSCORES')[2] or nil)
return { #ids / 2 - dropped, math.min(lease or away or -1, away or lease or -1), first_due(), dropped }
