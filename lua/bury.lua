-- SPDX-License-Identifier: BSD-2-Clause
-- bury.lua - gives claimed jobs of one bucket up: they stay as dead letters.
--
--   KEYS[1]  hash  :pool    KEYS[2]  zset  :delay
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[4]  zset  :error   job id, scored by time of burial in ms
--   KEYS[5]  hash  :tries   job id -> attempts, reason and last error
--   KEYS[6]  zset  :ttl     a queue's, see lib/queue.lua: a dead letter does not expire
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   then four per job: id, lease (the token of the claim), tries, '' or 'A' it was sent before, and
--            its answer was lost
--
-- Only for the lease that claimed the job. ZREM comes first: see claim.lua.
-- Returns one letter per job:   b buried   c dropped: it was cancelled meanwhile
--   x not this lease's any more   y the same, and so it was before (lua/ack.lua)
--   or {head, letters} where a job has come from :held: the first due time of KEYS[2].
-- A second run answers x where the first did b, y where it did x, and c as the first. Cost: O(k log n) for k jobs. Called by store_bury() in
-- bridge/store/store_call.c.
--#include lib/sums.lua
--#include lib/told.lua
--#include lib/order.lua
local pool, delay, unack, dead, tries, ttl = unpack(KEYS)
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local codes = {}
for at = 2, #ARGV, 4 do
  local id = ARGV[at]
  local lease = redis.call('ZSCORE', unack, id)
  local code = 'x'
  if lease and tonumber(lease) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', unack, id)
    if order_cancelled(redis.call('HGET', tries, id)) then
      told_outdate(id, ARGV[at + 1], now, redis.call('HGET', base .. ':ended', id))
      sums_add('cancelled', select(2, order_gone(id)))
      code = 'c'
      told_add(told_lease(id, ARGV[at + 1]), code, now)
    else
      redis.call('ZREM', ttl, id)
      redis.call('ZADD', dead, now, id)
      redis.call('HSET', tries, id, ARGV[at + 2])
      order_left(id, true)
      code = 'b'
    end
  else
    order_returned(id, ARGV[at + 1])
    code = told_stale(base, id, ARGV[at + 1], 'c', now, ARGV[at + 3] == 'A')
  end
  codes[#codes + 1] = code
end
told_note(base)
sums_note(base)
return order_reply(codes)
