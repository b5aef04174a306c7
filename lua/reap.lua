-- SPDX-License-Identifier: BSD-2-Clause
-- reap.lua - puts jobs of one bucket back whose lease has ended without a word, or whose claim was
-- not heard of.
--
--   KEYS[1]  hash  :pool    KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[4]  zset  :error   KEYS[5]  hash  :tries   job id -> attempts and last error
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  how many jobs at most
--   ARGV[3]  the error to note where none stands yet
--   and for a claim whose answer was lost: ARGV[4] field of :sums of its claimant (claim.lua)
--            ARGV[5] the lease of the last claim of his that he knows, 0: of none
--
-- If Redis made the lost claim, its lease is the one that is noted for the claimant. Nobody has
-- heard of its jobs, so they go back untried; those whose lease has ended stay for another call.
--
-- They are due at once, and the claim that was lost counts as an attempt: the number that
-- begins the value in :tries goes up by one. A slot at the rate of a target (paced) is used up.
-- The lease is noted, since its holder may still say that it has delivered (ack.lua). A job
-- that was cancelled meanwhile goes. One that does not count any more (:away of lib/order.lua) is
-- waited for no longer. ZREM comes first: see claim.lua.
-- Returns {moved, lease, head, dropped}: how many; first end of a lease left in KEYS[3], or of
--   one that is waited for, or -1;
--   due time of the first job in KEYS[2] or -1; how many went.
-- Cost: O(k log n) for k jobs. Called by store_reap() in bridge/store/store_call.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/told.lua
--#include lib/order.lua
local pool, delay, unack, dead, tries = unpack(KEYS)
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local lost = ARGV[4] and redis.call('HGET', base .. ':sums', ARGV[4])
lost = lost and tonumber(lost) ~= tonumber(ARGV[5]) and lost

local function put_back(id, lease, was)
  redis.call('ZADD', delay, now, id)
  if lost then
    return
  end
  local count, rest = string.match(was or '', '^(%d+)(.*)$')
  rest = rest and string.gsub(rest, '^|paced|', '||') or
    ('||0/0/0|' .. now .. '|' .. now .. '|' .. ARGV[3])
  redis.call('HSET', tries, id, (tonumber(count or 0) + 1) .. rest)
  lease_note(base, id, lease)
end

local dropped, ids = 0, {}
if lost or not ARGV[4] then
  ids = redis.call('ZRANGEBYSCORE', unack, lost or '-inf', lost or now, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
end
for at = 1, #ids, 2 do
  local id = ids[at]
  redis.call('ZREM', unack, id)
  local was = redis.call('HGET', tries, id)
  if order_cancelled(was) then
    -- Who has it, or had it, may have said so, unheard.
    told_outdate(id, '', now, redis.call('HGET', base .. ':ended', id), ids[at + 1])
    sums_add('cancelled', select(2, order_gone(id)))
    dropped = dropped + 1
  else
    put_back(id, ids[at + 1], was)
  end
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', '-inf', now, 'LIMIT', 0, ARGV[2])) do
  order_came_back(member)
end
told_note(base)
sums_note(base)
if not ARGV[4] then -- claimants whose last lease has ended: they may be gone
  local all = redis.call('HGETALL', base .. ':sums')
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 6) == 'claim:' and tonumber(all[at + 1]) <= now then
      redis.call('HDEL', base .. ':sums', all[at])
    end
  end
end
local lease = tonumber(redis.call('ZRANGE', unack, 0, 0, 'WITHSCORES')[2] or nil)
local other = tonumber(redis.call('ZRANGE', base .. ':away', 0, 0, 'WITHSCORES')[2] or nil)
if other and not (lease and lease < other) then
  lease = other
end
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
return { #ids / 2 - dropped, lease or -1, tonumber(head or -1), dropped }
