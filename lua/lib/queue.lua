-- SPDX-License-Identifier: BSD-2-Clause
-- lib/queue.lua - what the scripts of queues share; it stands at the head of each of them,
-- behind lib/lease.lua and lib/sums.lua. Its far jobs: lib/far.lua.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time in us: those of one ms keep their order
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms, the lease's token
--   KEYS[4]  zset  :error   job id of a dead letter, scored by time of burial in ms
--   KEYS[5]  hash  :tries   job id -> attempts, reason, last error (bridge/job/tries.h)
--   KEYS[6]  zset  :ttl     job id, scored by the time at which it expires in ms
--   KEYS[7]  zset  :done    job id of an ended job, scored by when it is forgotten in ms
--   KEYS[8]  hash  :ids     job id -> the keys of its queue, where an id names one job in all
--            queues of a sink; not given else
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  deliveries of a job that says nothing about them; 0: no limit; '': this is the
--            bucket of a route, not of a queue
--   ARGV[3]  how long ended jobs are kept in ms; 0: not
--   ARGV[4]  '1': a job out of tries is buried; '': it ends
--   ARGV[5]  channel to wake other instances on
--   ARGV[6]  name of the bucket, the text of the wake
--   ARGV[7]  horizon in ms, of lib/far.lua; '' none
--
-- Holds before and after: an id of :pool stands in exactly one of :delay, :unack, :error and
-- :done; one of :ttl in :delay or :unack. What ended by itself (leases, expiry) is settled at
-- the beginning of every script, so nothing has to watch a queue that nobody asks for.
-- What is read is read before the first write, so that an error loses nothing; of the writes
-- ZREM comes first: see claim.lua. So does the move of far jobs whose time has come. Every script
-- ends its reply with {expired, timed out, exhausted, slot}: how many jobs it has settled in each
-- way, and the start of the first slot that is still to be moved in ms, or -1.
local pool, delay, unack, dead, tries, ttl, done, ids = unpack(KEYS)
local keys = string.sub(pool, 1, -6) -- what all keys of the bucket begin with
if ids == keys .. ':whole' then
  ids = nil
end
local claims = ids and string.sub(ids, 1, -5) or keys -- of lib/claim.lua
local now_us = tonumber(ARGV[1]) and ARGV[1] * 1000
if not now_us then
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end
-- In ms: what has ended by now, and from when a lease counts. Whole numbers, which small
-- sorted sets compare ten times as fast.
local now, soon = math.floor(now_us / 1000), math.ceil(now_us / 1000)
local keep_ms, bury = tonumber(ARGV[3]), ARGV[4] == '1'
local SETTLE_MAX = 200 -- of each kind in one call; the next call goes on
local expired, timed_out, exhausted = 0, 0, 0

local function first(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- Scores of :delay are us, but ms in the bucket of a route.
local UNIT = ARGV[2] == '' and 1 or 1000 -- of them to a ms
local now_due = ARGV[2] == '' and now or now_us

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

-- Of jobs by their ids. Gives how many bodies went.
local function forget(...)
  local bodies = redis.call('HDEL', pool, ...)
  if redis.call('HDEL', tries, ...) > 0 then
    redis.call('HDEL', keys .. ':ended', ...)
  end
  if ids then
    redis.call('HDEL', ids, ...)
  end
  return bodies
end

local told
local function words() -- made when they are needed, which is rarely
  if not told then
--#include lib/told.lua
    told = { find = told_find, add = told_add, lease = told_lease, outdate = told_outdate, note = told_note }
  end
  return told
end

-- The word of who had the job before, or has it now, does not count any more, but mine.
local function outdate(id, mine, ended, held)
  if ended or held then
    words().outdate(id, mine, now, ended, held)
  end
end

-- It ends without a word of theirs.
local function outdate_all(id, held)
  outdate(id, '', redis.call('HGET', keys .. ':ended', id), held)
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
    lease_note(keys, id, lease)
    return true
  end
  exhausted = exhausted + 1
  redis.call('ZREM', ttl, id)
  if bury then
    redis.call('ZADD', dead, now, id)
    note(id, attempts, since, 'retries', why)
    lease_note(keys, id, lease)
  else
    outdate_all(id, string.format('%.0f', lease))
    finish(id, attempts, since, 'retries')
  end
  return false
end

-- {id, score, ...}
local function over(key)
  if ARGV[2] == '' then
    return {} -- the bucket of a route: lua/reap.lua looks after its leases
  end
  return redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, SETTLE_MAX)
end

-- Made when they are needed, as this takes longer than most calls.
local far
local function far_jobs()
  if far then
    return far
  end
--#include lib/far.lua
--#include lib/far_move.lua
  far = { early = far_early, first = far_first, find = far_find, take = far_take, front = far_front, pop = far_pop,
          move = far_move, span = far_span, count = far_count }
  return far
end

local was = first(delay)
local slot = tonumber(redis.call('ZRANGE', keys .. ':far', 0, 0)[1] or -1)
if slot >= 0 then
  local early = far_jobs().early(tonumber(ARGV[7]) or 0)
  if ARGV[2] ~= '' and slot - now <= early then
    far.move(keys, slot, SETTLE_MAX)
  end
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
    outdate_all(id, held)
    finish(id, attempts + flying, since, 'expired')
    expired = expired + 1
  end
end
local aged = over(ttl)
for i = 1, #aged, 2 do
  expire(aged[i])
end
local late = over(unack)
timed_out = #late / 2
for i = 1, timed_out do
  put_back(late[2 * i - 1], late[2 * i], now_us - (timed_out - i), 'the lease ended')
end

local function is_far(id)
  return slot >= 0 and redis.call('HEXISTS', keys .. ':where', id) == 1
end

-- A far job is here, with its due time and all that is known of it, or nil.
local function find_far(id)
  if slot >= 0 then
    return far_jobs().find(keys, id)
  end
end

-- It comes to :pool, and stands nowhere else; says whether it did.
local function bring_far(id)
  local _, record = find_far(id)
  if not record or far.take(keys, id) == 0 then
    return false
  end
  redis.call('HSET', pool, id, record)
  return true
end

-- The first due time, or when a slot is to be moved, and who else should know of it; at the end of
-- a script, since it notes the sums, and whose word does not count any more.
local function head()
  if told then
    told.note(keys)
  end
  sums_note(keys, ARGV[2] ~= '')
  local is = first(delay)
  if is and (not was or is < was) then
    redis.pcall('PUBLISH', ARGV[5], ARGV[6]) -- may be denied: others then look a little later
  end
  slot = slot >= 0 and far.first(keys) or -1
  local later = slot >= 0 and ARGV[2] ~= '' and slot - far.early(tonumber(ARGV[7]) or 0)
  return later and math.min(is and in_ms(is) or later, later) or in_ms(is)
end
