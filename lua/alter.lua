-- SPDX-License-Identifier: BSD-2-Clause
-- alter.lua - cancels pending jobs of one bucket, or sets another due time for them.
--
-- A row with a slot names a far job by its position, because a far Kafka record has no id in :where. A job in flight
-- stays: a cancel marks it, so that it is not retried. Dead letters stay.
--
-- A move also changes the due time in the record (bridge/job/job.h), because lateness and the next run are counted
-- from it. A moved far job becomes a near job, whatever its time. Within its group a job keeps its arrival order among
-- jobs due at the same time. A job that was tried before stays in front. Not repeatable: with after_ms a second run
-- counts from its own time.
local due = at_ms or now + after_ms
local score = of_queue and due * 1000 or due
local was = first_score(delay)
local has_far = redis.call('EXISTS', base .. ':far') == 1

-- Returns the state of a job that is in neither :delay nor :held.
local function elsewhere(id)
  return redis.call('ZSCORE', unack, id) and IN_FLIGHT or redis.call('ZSCORE', dead, id) and DEAD or NOT_THERE
end

-- Removes a far job. Returns its record, expiry, group, arrival and the id that it has as a near job; nil: no such
-- far job. slot, ordinal: its position, slot '' if unknown.
local function take_far(id, slot, ordinal)
  if not has_far then
    return nil
  elseif slot == '' then
    local _, record, expires, group, arrival = far().find(id)
    far().take(id)
    return record, expires, group, arrival, id
  end
  return far().take_at(slot, tonumber(ordinal), id)
end

-- The first bytes of a record of bridge/job/job.c: an array of four or six, version 1, the due time.
local function due_anew(record)
  local head = string.sub(record, 1, 3)
  if #record < 11 or (head ~= '\148\1\207' and head ~= '\150\1\207') then
    return record
  end
  return head .. struct.pack('>I8', due) .. string.sub(record, 12)
end

-- Makes the job pending at its new due time. A job of a group waits if another is before it.
local function put(id, group, arrival)
  if not group then
    redis.call('ZADD', delay, score, id)
    return DONE
  end
  return order().place(id, due, group, arrival) and DONE or HELD
end

local function move_far(id, slot, ordinal)
  local expires = has_far and far().expiry(id, slot, ordinal)
  if expires and expires <= due then
    return EXPIRES
  end
  local record, _, group, arrival, new_id = take_far(id, slot, ordinal)
  if not record then
    return NOT_THERE
  end
  redis.call('HSET', pool, new_id, due_anew(record))
  if expires then
    redis.call('ZADD', base .. ':ttl', expires, new_id)
  end
  return put(new_id, group, arrival)
end

local function move_near(id, record)
  local expires = redis.call('ZSCORE', base .. ':ttl', id)
  if expires and tonumber(expires) <= due then
    return EXPIRES
  end
  local its, place = redis.call('ZSCORE', delay, id), redis.call('HGET', base .. ':place', id)
  local is_held = place and not its and redis.call('ZREM', base .. ':held', place .. id) == 1
  if not its and not is_held then
    return elsewhere(id)
  end
  local group, arrival = place and string.sub(place, 1, 16), place and tonumber(string.sub(place, 33, PLACE_BYTES))
  redis.call('HSET', pool, id, due_anew(record))
  if its and group and tonumber(its) ~= order().due(place) then -- it was claimed before: it stays in front
    redis.call('ZADD', delay, due, id)
    return DONE
  elseif its and group then
    redis.call('ZREM', delay, id)
    order().follow(group)
  end
  return put(id, group, arrival)
end

-- lua/move.lua may have made the far job a near one meanwhile.
local function move(id, slot, ordinal)
  local code = slot ~= '' and move_far(id, slot, ordinal) or NOT_THERE
  if code ~= NOT_THERE then
    return code
  end
  local record = redis.call('HGET', pool, id)
  return record and move_near(id, record) or not record and move_far(id, '')
end

local function cancel_near(id)
  if redis.call('ZREM', delay, id) == 0 then
    local state = elsewhere(id)
    if state == IN_FLIGHT and not of_queue then
      mark_cancelled(id)
    end
    if state ~= NOT_THERE or of_queue or redis.call('HEXISTS', pool, id) == 0 then
      return state
    end -- it is held behind its group
  end
  remove(id, 'cancelled', '')
  redis.call('ZREM', base .. ':ttl', id)
  return DONE
end

local function cancel(id, slot, ordinal)
  local taken = slot ~= '' and take_far(id, slot, ordinal)
  local code = not taken and cancel_near(id)
  if not taken and (code ~= NOT_THERE or not take_far(id, '')) then
    return code
  end
  sums_add('cancelled', 1)
  if owners then
    redis.call('HDEL', owners, id)
  end
  return DONE
end

local CHANGE = { [WHAT_CANCEL] = cancel, [WHAT_MOVE] = move }
local codes = {}
if what == WHAT_CANCEL then
  redis.call('ZREM', delay, '') -- first write: see lib/bucket.lua
end
for at = FIRST_ROW, #ARGV, ROW do
  codes[#codes + 1] = CHANGE[what](ARGV[at], ARGV[at + SLOT], ARGV[at + ORDINAL])
end
write_notes(of_queue)
return { due, tell_head(was), unpack(codes) }
