-- SPDX-License-Identifier: BSD-2-Clause
-- move_due.lua - gives one job that waits in a bucket another due time.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time: in ms, of a queue in us
--   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--            and the keys of lib/order.lua and lib/far.lua
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  job id
--   ARGV[3]  due in ms, or '' for ARGV[4]: so many ms from now on
--   ARGV[5]  'q' the bucket of a queue, '' of a route
--   ARGV[6]  channel to wake other instances on   ARGV[7]  the text of the wake
--
-- Returns {code, due in ms, head}: head: due time of the first job in KEYS[2] (of a queue in us), or
--   -1. The codes:
--   m moved   h moved, and it waits behind others of its group
--   f in flight   d a dead letter   x it would have expired by then   n not there
-- The due time within the record follows (bridge/job/job.h), since lateness and the next run count from it.
-- A far job waits near from now on, whatever its time. Of its group a job keeps the place of its
-- arrival among those due at the same time; one that was tried before stays in front.
-- Not repeatable: a second run with ARGV[4] counts from then. Called by store_move_due() in
-- bridge/store/store_list.c.
--#include lib/order.lua
local far
local function far_jobs() -- made when it is needed: to make these functions takes time
  if not far then
--#include lib/far.lua
    far = { place = far_place, read = far_read, take = far_take }
  end
  return far
end

local pool, delay, unack, dead = unpack(KEYS)
local id, of_queue = ARGV[2], ARGV[5] == 'q'
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local due = tonumber(ARGV[3]) or now + tonumber(ARGV[4])
local score = of_queue and due * 1000 or due
local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]

-- What bridge/job/job.c begins a record with: an array of four or six, version 1, the due time.
local function due_anew(record)
  local head = string.sub(record, 1, 3)
  if #record < 11 or (head ~= '\148\1\207' and head ~= '\150\1\207') then
    return record
  end
  return head .. struct.pack('>I8', due) .. string.sub(record, 12)
end

-- It stands in no index, and nobody of its group is in front because of it.
local function put(group, arrival)
  if not group then
    redis.call('ZADD', delay, score, id)
    return 'm'
  end
  return order_place(id, due, group, arrival) and 'm' or 'h'
end

local function move_far()
  local list, index, start = far_jobs().place(base, id)
  local entry = list and redis.call('LINDEX', list, index)
  if not entry or entry == '' then
    return 'n'
  end
  local _, _, record, group, expires, _, arrival = far.read(base, entry, start)
  if expires and expires <= due then
    return 'x'
  end
  far.take(base, id)
  redis.call('HSET', pool, id, due_anew(record))
  if expires then
    redis.call('ZADD', base .. ':ttl', expires, id)
  end
  return put(group, arrival)
end

local function move_near(record)
  local expires = redis.call('ZSCORE', base .. ':ttl', id)
  if expires and tonumber(expires) <= due then
    return 'x'
  end
  local its, place = redis.call('ZSCORE', delay, id), redis.call('HGET', base .. ':place', id)
  local is_held = place and not its and redis.call('ZREM', base .. ':held', place .. id) == 1
  if not its and not is_held then
    return redis.call('ZSCORE', unack, id) and 'f' or redis.call('ZSCORE', dead, id) and 'd' or 'n'
  end
  local group, arrival = place and string.sub(place, 1, 16), place and tonumber(string.sub(place, 33, PLACE_BYTES))
  redis.call('HSET', pool, id, due_anew(record))
  if its and group and tonumber(its) ~= order_due(place) then -- it was claimed before: it stays in front
    redis.call('ZADD', delay, due, id)
    return 'm'
  elseif its and group then
    redis.call('ZREM', delay, id)
    order_follow(group)
  end
  return put(group, arrival)
end

local record = redis.call('HGET', pool, id)
local code
if record then
  code = move_near(record)
else
  code = move_far()
end

local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
if head and (not was or tonumber(head) < tonumber(was)) then
  redis.pcall('PUBLISH', ARGV[6], ARGV[7]) -- may be denied: others then look a little later
end
return { code, due, tonumber(head or -1) }
