-- SPDX-License-Identifier: BSD-2-Clause
-- lib/queue.lua - the common part of all queue scripts. A caller may also pass the bucket of a route; tries_max is
-- then nil. The arguments of all: scripts.def.
--
--   zset  :ttl     job id, scored by the time at which it expires in ms
--   zset  :done    job id of an ended job, scored by when it is forgotten in ms
--
-- Invariant: an id of :pool is in exactly one of :delay, :unack, :error and :done. An id of :ttl is in :delay or
-- :unack. Every script first settles expired leases and jobs, so a queue without calls needs no timer. It reads
-- before its first write, so an error loses nothing. Every reply ends with {expired, timed out, exhausted, slot}:
-- the number of jobs settled in each way, and the start in ms of the first slot of far jobs, or -1.
local ttl, done = base .. ':ttl', base .. ':done'
local of_route = not tries_max
local soon = math.ceil(now_us / 1000) -- start of new leases in ms; whole, because scores are
local SETTLE_MAX = 200 -- of each kind in one call; the next call continues
local expired, timed_out, exhausted = 0, 0, 0

-- Scores of :delay are in us, in the bucket of a route in ms.
local UNIT = of_route and 1 or 1000 -- score units per ms
local now_due = of_route and now or now_us

-- Converts a score of :delay to ms; -1 stays. Rounds up, so that no consumer asks too early.
local function in_ms(score)
  return score >= 0 and math.ceil(score / UNIT) or -1
end

-- Returns the job's own limit of deliveries and its lease in ms; 0: not set. They are in the last 18 bytes of a
-- record that is an array of six (bridge/job/job.h). cmsgpack cannot read that format.
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
  local limit = own > 0 and own or tries_max or 0
  return limit > 0 and limit or math.huge
end

-- Returns the number of attempts so far, and the time of the first in ms, or nil.
local function tried(id)
  local n, since = string.match(redis.call('HGET', tries, id) or '', '^(%d+)|[^|]*|[%d/]*|(%d+)|')
  return tonumber(n or 0), tonumber(since)
end

local function note(id, attempts, since, reason, why)
  redis.call('HSET', tries, id, string.format('%d|%s|0|%d|%d|%s', attempts, reason, since or now, now, why))
end

local SUM = { acked = 'delivered', deleted = 'cancelled', expired = 'expired', retries = 'exhausted' }

-- Ends a job that the caller has removed from all indexes.
local function finish(id, attempts, since, reason)
  if keep_ms > 0 then
    redis.call('ZADD', done, now + keep_ms, id)
    note(id, attempts, since, reason, '')
    sums_add(SUM[reason], 1)
  else
    sums_add(SUM[reason], forget(id))
  end
end

-- Records a failed delivery and removes the job from :unack. Returns true if the job is due again.
-- Logs the lease, because its holder may still acknowledge the job.
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

-- Returns {id, score, ...} of the entries whose time has passed.
local function over(key)
  if of_route then
    return {} -- lua/reap.lua settles the leases of routes
  end
  return redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES', 'LIMIT', 0, SETTLE_MAX)
end

local was = first_score(delay)
local slot = tonumber(redis.call('ZRANGE', base .. ':far', 0, 0)[1] or -1)
local function far_early()
  return far_moves().early(horizon or 0)
end
if slot >= 0 and not of_route and slot - now <= far_early() then
  far_moves().move(slot, SETTLE_MAX)
  slot = far().first()
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

-- Returns the present lease of a job of a queue if it equals lease. lease '' or nil: any lease.
local function held_by(id, lease)
  local held, wanted = tonumber(redis.call('ZSCORE', unack, id) or nil), tonumber(lease)
  return not of_route and held and (not wanted or held == wanted) and held or nil
end

-- Returns due time and other fields of a far job (see far().find()), or nil.
local function find_far(id)
  if slot >= 0 then
    return far().find(id)
  end
end

-- Moves a far job to :pool, but to no index. Returns true if the job was found.
local function bring_far(id)
  local _, record = find_far(id)
  if not record or far().take(id) == 0 then
    return false
  end
  redis.call('HSET', pool, id, record)
  return true
end

-- Returns the first due time in ms, or the time to move a slot if earlier. Wakes other instances if
-- a job became due earlier. Call it at the end of a script, because it writes the log and the sums.
local function settle_head()
  write_notes(not of_route)
  local head = in_ms(tell_head(was))
  slot = slot >= 0 and far().first() or -1
  if slot < 0 or of_route then
    return head
  end
  local later = slot - far_early()
  return head < 0 and later or math.min(head, later)
end

-- Appends the counts of settled jobs to the reply.
local function reply(out)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = expired, timed_out, exhausted, slot
  return out
end
