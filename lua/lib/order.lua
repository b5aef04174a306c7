-- SPDX-License-Identifier: BSD-2-Clause
-- lib/order.lua - the order of jobs by key in the bucket of a route, and how a job goes for
-- good. KEYS[1] of the script that includes it is :pool; the other keys are made of it, since
-- all of a bucket share one hash tag.
--
--   hash  :place  job id -> its group, due time and arrival, PLACE_BYTES in all
--   hash  :lead   group -> id of its job in front, or AWAY; '#' -> arrivals so far
--   zset  :away   group .. id of a job that was in front and in flight when it was replaced, or
--                 acked by an earlier lease, scored by the end of its lease in ms: somebody still
--                 has it, so its group waits for his word, or for that end (reap.lua)
--   zset  :held   place .. id of the jobs behind those, all of score 0: so that the order of
--                 the texts is the order of the jobs
--   hash  :ended  lib/lease.lua
--
-- A group is a text of 16 bytes, which the daemon makes of a job's key. Holds before and
-- after: of each group at most one job stands in :delay, :unack or :away, and none in :held if
-- none does. A job without a place waits for no other. A dead letter keeps its place, for its
-- group.
--
-- The job in front stays there until it has left, also while it waits for its next attempt.
-- But one that has not been claimed since it was placed gives way to one due earlier.
local base = string.sub(KEYS[1], 1, -6) -- without ":pool"
local PLACE_BYTES = 16 + 16 + 16
local AWAY = '' -- no id
local promoted = false -- a job has come to :delay from :held

local function order_group(id)
  local place = redis.call('HGET', base .. ':place', id)
  return place and string.sub(place, 1, 16)
end

-- A number of a place: of fixed width, so that texts compare as they do. %d has 32 bits on
-- some machines.
local function order_wide(n)
  return string.format('%016.0f', math.min(math.max(tonumber(n), 0), 1e15))
end

local function order_due(place)
  return tonumber(string.sub(place, 17, 32))
end

local function order_arrival()
  return redis.call('HINCRBY', base .. ':lead', '#', 1)
end

-- Gives a job its place; a dead letter needs no more. Returns it. arrival: nil: it comes now.
local function order_note(id, due, group, arrival)
  arrival = arrival or order_arrival()
  local place = group .. order_wide(due) .. order_wide(arrival)
  redis.call('HSET', base .. ':place', id, place)
  return place
end

-- Puts a job that stands in no index where it is to wait, due in ms. group nil: that which is
-- remembered of it, or none. arrival: of order_note(). Says whether it stands in :delay.
local function order_place(id, due, group, arrival)
  local delay_key = base .. ':delay'
  group = group or order_group(id)
  if not group then
    redis.call('ZADD', delay_key, due, id)
    return true
  end
  local place = order_note(id, due, group, arrival)
  local front = redis.call('HGET', base .. ':lead', group)
  if front == AWAY then
    redis.call('ZADD', base .. ':held', 0, place .. id)
    return false
  elseif front and front ~= id then
    local score = tonumber(redis.call('ZSCORE', delay_key, front) or nil)
    local its = redis.call('HGET', base .. ':place', front)
    if score ~= order_due(its) or place > its then
      redis.call('ZADD', base .. ':held', 0, place .. id)
      return false
    end
    redis.call('ZREM', delay_key, front)
    redis.call('ZADD', base .. ':held', 0, its .. front)
  end
  redis.call('HSET', base .. ':lead', group, id)
  redis.call('ZADD', delay_key, order_due(place), id)
  return true
end

-- Nobody of the group is in front: the next goes to :delay.
local function order_follow(group)
  local following = redis.call('ZRANGEBYLEX', base .. ':held', '[' .. group, '(' .. group .. '\255',
                               'LIMIT', 0, 1)[1]
  if not following then
    redis.call('HDEL', base .. ':lead', group)
    return
  end
  local its_id = string.sub(following, PLACE_BYTES + 1)
  redis.call('ZREM', base .. ':held', following)
  redis.call('HSET', base .. ':lead', group, its_id)
  redis.call('ZADD', base .. ':delay', order_due(following), its_id)
  promoted = true
end

-- A job has left its index for good, or (dead) to be a dead letter: where it was in front the
-- next of its group goes to :delay. One that is held is taken out; says whether it was. lease:
-- somebody still has it with that one; nil: nobody.
local function order_left(id, dead, lease)
  local place = redis.call('HGET', base .. ':place', id)
  if not place then
    return false
  end
  if not dead then
    redis.call('HDEL', base .. ':place', id)
  end
  local group = string.sub(place, 1, 16)
  if redis.call('HGET', base .. ':lead', group) ~= id then
    return redis.call('ZREM', base .. ':held', place .. id) == 1
  end
  if lease then
    redis.call('HSET', base .. ':lead', group, AWAY)
    redis.call('ZADD', base .. ':away', lease, group .. id)
  else
    order_follow(group)
  end
  return false
end

local function order_came_back(member)
  redis.call('ZREM', base .. ':away', member)
  order_follow(string.sub(member, 1, 16))
end

-- A word about a job that does not count any more, of the one who has it with that lease.
local function order_returned(id, lease)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', lease, lease)) do
    if string.sub(member, 17) == id then
      order_came_back(member)
    end
  end
end

-- Forgets all of a job that stands in no index any more, or in :held. Says whether it did, and how
-- many bodies went. lease: of order_left().
local function order_gone(id, lease)
  local bodies = redis.call('HDEL', KEYS[1], id)
  if redis.call('HDEL', base .. ':tries', id) == 1 then
    redis.call('HDEL', base .. ':ended', id)
  end
  return order_left(id, false, lease), bodies
end

-- lua/cancel.lua has marked it, while it was in flight. note: what :tries has of it.
local function order_cancelled(note)
  return note and string.find(note, '^%d+|cancelled|') ~= nil
end

-- The reply of a script: the codes, with the first due time where that is an earlier one.
local function order_reply(codes)
  local text = table.concat(codes)
  if not promoted then
    return text
  end
  local head = redis.call('ZRANGE', base .. ':delay', 0, 0, 'WITHSCORES')[2]
  return { tonumber(head or -1), text }
end
