-- SPDX-License-Identifier: BSD-2-Clause
-- lib/queue.lua - what the scripts of queues share. The bucket of a
-- route may be asked, too: then ARGV[2] is ''.
--
--   zset  :ttl     job id, scored by the time at which it expires in ms
--   zset  :done    job id of an ended job, scored by when it is forgotten in ms
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  deliveries of a job that says nothing about them; 0: no limit; '': the bucket of a route
--   ARGV[3]  how long ended jobs are kept in ms; 0: not
--   ARGV[4]  '1': a job out of tries is buried; '': it ends
--   ARGV[5]  channel to wake other instances on
--   ARGV[6]  name of the bucket, the text of the wake
--   ARGV[7]  horizon in ms, of lib/far.lua; '' none
--
-- Holds before and after: an id of :pool stands in exactly one of :delay, :unack, :error and
-- :done; one of :ttl in :delay or :unack. What ended by itself (leases, expiry) is settled at
-- the beginning of every script, so nothing has to watch a queue that nobody asks for.
-- What is read is read before the first write, so that an error loses nothing. Every script
-- ends its reply with {expired, timed out, exhausted, slot}: how many jobs it has settled in each
-- way, and the start of the first slot that is still to be moved in ms, or -1.
--#include lib/bucket.lua
--#include lib/now.lua
--#include lib/sums.lua
--#include lib/late.lua
--#include lib/order.lua
--#include lib/far.lua
--#include lib/far_move.lua
local ttl, done = base .. ':ttl', base .. ':done'
local of_route = ARGV[2] == ''
local soon = math.ceil(now_us / 1000) -- from when a lease counts, in ms: a whole number, as all scores
local keep_ms, bury = tonumber(ARGV[3]), ARGV[4] == '1'
local SETTLE_MAX = 200 -- of each kind in one call; the next call goes on
local expired, timed_out, exhausted = 0, 0, 0

local function first(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- Scores of :delay are us, but ms in the bucket of a route.
local UNIT = of_route and 1 or 1000 -- of them to a ms
local now_due = of_route and now or now_us

-- Of a score of :delay; up, so that nobody comes too early.
local function in_ms(score)
  return score and math.ceil(score / UNIT) or -1
end

-- What an encoded job says itself: deliveries at most, and the lease in ms; 0: nothing. They
-- stand in its last 18 bytes, if it is an array of six (bridge/job/job.h). cmsgpack can't read it.
local function says(record)
  if not record or #record < 20 or string.byte(record, 1) ~= 0x96 then
    return 0, 0
  end
  local own_tries = struct.unpack('>I8', record, #record - 16)
  local own_lease = struct.unpack('>I8', record, #record - 7)
  return own_tries, own_lease
end

local function limit_of(id)
  local own = says(redis.call('HGET', pool, id))
  local limit = own > 0 and own or tonumber(ARGV[2]) or 0
  return limit > 0 and limit or math.huge
end

-- Attempts so far, and the time of the first in ms, or nil.
local function tried(id)
  local n, since = string.match(redis.call('HGET', tries, id) or '', '^(%d+)|[^|]*|[%d/]*|(%d+)|')
  return tonumber(n or 0), tonumber(since)
end

local function note(id, attempts, since, reason, why)
  redis.call('HSET', tries, id, string.format('%d|%s|0|%d|%d|%s', attempts, reason, since or now, now, why))
end

local SUM = { acked = 'delivered', deleted = 'cancelled', expired = 'expired', retries = 'exhausted' }

-- The job is over, and stands nowhere any more.
local function finish(id, attempts, since, reason)
  if keep_ms > 0 then
    redis.call('ZADD', done, now + keep_ms, id)
    note(id, attempts, since, reason, '')
    sums_add(SUM[reason], 1)
  else
    sums_add(SUM[reason], forget(id))
  end
end

-- A delivery has failed, and the job leaves :unack. Says whether it is due again. The lease is
-- noted: its holder may still say that it is done.
local function put_back(id, lease, due, why)
  local attempts, since = tried(id)
  local limit = limit_of(id)
  attempts = attempts + 1
  redis.call('ZREM', unack, id)
  if attempts < limit then
    redis.call('ZADD', delay, due, id)
    note(id, attempts, since, '', why)
    note_lease(id, lease)
    return true
  end
  exhausted = exhausted + 1
  redis.call('ZREM', ttl, id)
  if bury then
    redis.call('ZADD', dead, now, id)
    note(id, attempts, since, 'retries', why)
    note_lease(id, lease)
  else
    outdate(id, '', string.format('%.0f', lease))
    finish(id, attempts, since, 'retries')
  end
  return false
end

-- {id, score, ...}
local function over(key)
  if of_route then
    return {} -- the bucket of a route: lua/reap.lua looks after its leases
  end
  return redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, SETTLE_MAX)
end

local was = first(delay)
local slot = tonumber(redis.call('ZRANGE', base .. ':far', 0, 0)[1] or -1)
local function far_early()
  return far_moves().early(tonumber(ARGV[7]) or 0)
end
if slot >= 0 and not of_route and slot - now <= far_early() then
  far_moves().move(slot, SETTLE_MAX)
end

local past = over(done)
for i = 1, #past, 2 do
  redis.call('ZREM', done, past[i])
  forget(past[i])
end
local function expire(id)
  local attempts, since = tried(id)
  redis.call('ZREM', ttl, id)
  local held = redis.call('ZSCORE', unack, id)
  local flying = redis.call('ZREM', unack, id)
  if flying == 1 or redis.call('ZREM', delay, id) == 1 then
    outdate(id, '', held)
    finish(id, attempts + flying, since, 'expired')
    expired = expired + 1
  end
end
local aged = over(ttl)
for i = 1, #aged, 2 do
  expire(aged[i])
end
local lapsed = over(unack)
timed_out = #lapsed / 2
for i = 1, timed_out do
  put_back(lapsed[2 * i - 1], lapsed[2 * i], now_us - (timed_out - i), 'the lease ended')
end

local function is_there(id)
  return redis.call('HEXISTS', pool, id) == 1 or (slot >= 0 and redis.call('HEXISTS', base .. ':where', id) == 1)
end

-- The lease of who holds the job of a queue, if it is that one; '' and nil: whosever.
local function held_by(id, lease)
  local held, wanted = tonumber(redis.call('ZSCORE', unack, id) or nil), tonumber(lease)
  return not of_route and held and (not wanted or held == wanted) and held or nil
end

-- A far job is here, with its due time and all that is known of it, or nil.
local function find_far(id)
  if slot >= 0 then
    return far().find(id)
  end
end

-- It comes to :pool, and stands nowhere else; says whether it did.
local function bring_far(id)
  local _, record = find_far(id)
  if not record or far().take(id) == 0 then
    return false
  end
  redis.call('HSET', pool, id, record)
  return true
end

-- The first due time in ms, or when a slot is to be moved; other instances are told where it is earlier.
-- At the end of a script, since it writes the notes.
local function settle_head()
  write_notes(not of_route)
  local is = first(delay)
  if is and (not was or is < was) then
    redis.pcall('PUBLISH', ARGV[5], ARGV[6]) -- may be denied: others then look a little later
  end
  slot = slot >= 0 and far().first() or -1
  local later = slot >= 0 and not of_route and slot - far_early()
  return later and math.min(is and in_ms(is) or later, later) or in_ms(is)
end

-- The reply of a script, with what was settled.
local function reply(out)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = expired, timed_out, exhausted, slot
  return out
end
