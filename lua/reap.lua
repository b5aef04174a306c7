-- SPDX-License-Identifier: BSD-2-Clause
-- reap.lua - puts jobs of one bucket back whose lease expired without an outcome, or whose claim was lost.
--
-- If Redis executed the lost claim, :sums has its lease in the field of the claimant. The claimant
-- never received these jobs, so they return without an attempt.
--
-- Jobs become due at once, and an expired lease counts as an attempt: the number at the start of
-- the value in :tries is incremented. A reserved slot of a target's rate limit (paced) is used up.
-- The lease is logged, because its holder may still report the delivery (ack.lua). A cancelled job
-- is removed. Expired entries of :away (lib/order.lua) no longer block their group.
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
    remove(id, 'cancelled', '', ids[at + 1]) -- a holder may have reported an outcome that was lost
    dropped = dropped + 1
  else
    put_back(id, ids[at + 1], was)
  end
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', '-inf', now, 'LIMIT', 0, max)) do
  order().came_back(member)
end
write_notes()
if claimant == '' then -- claimants whose last lease expired: they may be gone
  local all = redis.call('HGETALL', base .. ':sums')
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 6) == 'claim:' and tonumber(all[at + 1]) <= now then
      redis.call('HDEL', base .. ':sums', all[at])
    end
  end
end
return { #ids / 2 - dropped, first_lease(unack, base .. ':away'), first_score(delay), dropped }
