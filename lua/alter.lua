-- SPDX-License-Identifier: BSD-2-Clause
-- move_due.lua - sets another due time for one pending job of a bucket.
--
-- The due time in the record is changed too (bridge/job/job.h), because lateness and the next run
-- are counted from it. A far job becomes a near job, whatever its time. Within its group a job
-- keeps its arrival order among jobs due at the same time. A job that was tried before stays in
-- front. Not repeatable: with after_ms a second run counts from its own time.
local due = at_ms or now + after_ms
local score = of_queue and due * 1000 or due
local was = first_score(delay)

-- The first bytes of a record of bridge/job/job.c: an array of four or six, version 1, the due time.
local function due_anew(record)
  local head = string.sub(record, 1, 3)
  if #record < 11 or (head ~= '\148\1\207' and head ~= '\150\1\207') then
    return record
  end
  return head .. struct.pack('>I8', due) .. string.sub(record, 12)
end

-- Makes the job pending at its new due time. A job of a group waits if another is before it.
local function put(group, arrival)
  if not group then
    redis.call('ZADD', delay, score, id)
    return MOVED
  end
  return order().place(id, due, group, arrival) and MOVED or HELD
end

local function move_far()
  local _, record, expires, group, arrival = far().find(id)
  if not record then
    return NOT_THERE
  elseif expires and expires <= due then
    return EXPIRES
  end
  far().take(id)
  redis.call('HSET', pool, id, due_anew(record))
  if expires then
    redis.call('ZADD', base .. ':ttl', expires, id)
  end
  return put(group, arrival)
end

local function move_near(record)
  local expires = redis.call('ZSCORE', base .. ':ttl', id)
  if expires and tonumber(expires) <= due then
    return EXPIRES
  end
  local its, place = redis.call('ZSCORE', delay, id), redis.call('HGET', base .. ':place', id)
  local is_held = place and not its and redis.call('ZREM', base .. ':held', place .. id) == 1
  if not its and not is_held then
    return redis.call('ZSCORE', unack, id) and IN_FLIGHT or redis.call('ZSCORE', dead, id) and DEAD or NOT_THERE
  end
  local group, arrival = place and string.sub(place, 1, 16), place and tonumber(string.sub(place, 33, PLACE_BYTES))
  redis.call('HSET', pool, id, due_anew(record))
  if its and group and tonumber(its) ~= order().due(place) then -- it was claimed before: it stays in front
    redis.call('ZADD', delay, due, id)
    return MOVED
  elseif its and group then
    redis.call('ZREM', delay, id)
    order().follow(group)
  end
  return put(group, arrival)
end

local record = redis.call('HGET', pool, id)
local code = record and move_near(record) or not record and move_far()
return { code, due, tell_head(was) }
