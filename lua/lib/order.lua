-- SPDX-License-Identifier: BSD-2-Clause
-- lib/order.lua - the order of jobs by key in the bucket of a route, and how a job goes for
-- good.
--
--   hash  :place  job id -> its group, due time and arrival, PLACE_BYTES in all
--   hash  :lead   group -> id of its job in front, or AWAY; '#' -> arrivals so far
--   zset  :away   group .. id of a job that was in front and in flight when it was replaced, or
--                 acked by an earlier lease, scored by the end of its lease in ms: somebody still
--                 has it, so its group waits for his word, or for that end (reap.lua)
--   zset  :held   place .. id of the jobs behind those, all of score 0: so that the order of
--                 the texts is the order of the jobs
--
-- A group is a text of 16 bytes, which the daemon makes of a job's key. Holds before and
-- after: of each group at most one job stands in :delay, :unack or :away, and none in :held if
-- none does. A job without a place waits for no other. A dead letter keeps its place, for its
-- group.
--
-- The job in front stays there until it has left, also while it waits for its next attempt.
-- But one that has not been claimed since it was placed gives way to one due earlier.
local PLACE_BYTES = 48
local AWAY = '' -- no id
local function order()
  if order_made then
    return order_made
  end
  local self = { promoted = false } -- promoted: a job has come to :delay from :held

  function self.group(id)
    local place = redis.call('HGET', base .. ':place', id)
    return place and string.sub(place, 1, 16)
  end

  -- A number of a place: of fixed width, so that texts compare as they do. %d has 32 bits on
  -- some machines.
  local function wide(n)
    return string.format('%016.0f', math.min(math.max(tonumber(n), 0), 1e15))
  end

  function self.due(place)
    return tonumber(string.sub(place, 17, 32))
  end

  function self.arrival()
    return redis.call('HINCRBY', base .. ':lead', '#', 1)
  end

  -- Gives a job its place; a dead letter needs no more. Returns it. arrival: nil: it comes now.
  function self.note(id, due, group, arrival)
    arrival = arrival or self.arrival()
    local place = group .. wide(due) .. wide(arrival)
    redis.call('HSET', base .. ':place', id, place)
    return place
  end

  -- Puts a job that stands in no index where it is to wait, due in ms. group nil: that which is
  -- remembered of it, or none. arrival: of self.note(). Says whether it stands in :delay.
  function self.place(id, due, group, arrival)
    group = group or self.group(id)
    if not group then
      redis.call('ZADD', delay, due, id)
      return true
    end
    local place = self.note(id, due, group, arrival)
    local front = redis.call('HGET', base .. ':lead', group)
    if front == AWAY then
      redis.call('ZADD', base .. ':held', 0, place .. id)
      return false
    elseif front and front ~= id then
      local score = tonumber(redis.call('ZSCORE', delay, front) or nil)
      local its = redis.call('HGET', base .. ':place', front)
      if score ~= self.due(its) or place > its then
        redis.call('ZADD', base .. ':held', 0, place .. id)
        return false
      end
      redis.call('ZREM', delay, front)
      redis.call('ZADD', base .. ':held', 0, its .. front)
    end
    redis.call('HSET', base .. ':lead', group, id)
    redis.call('ZADD', delay, self.due(place), id)
    return true
  end

  -- Nobody of the group is in front: the next goes to :delay.
  function self.follow(group)
    local following = redis.call('ZRANGEBYLEX', base .. ':held', '[' .. group, '(' .. group .. '\255',
                                 'LIMIT', 0, 1)[1]
    if not following then
      redis.call('HDEL', base .. ':lead', group)
      return
    end
    local its_id = string.sub(following, PLACE_BYTES + 1)
    redis.call('ZREM', base .. ':held', following)
    redis.call('HSET', base .. ':lead', group, its_id)
    redis.call('ZADD', delay, self.due(following), its_id)
    self.promoted = true
  end

  -- As leave_group() below.
  function self.left(id, dead, lease)
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
      self.follow(group)
    end
    return false
  end

  function self.came_back(member)
    redis.call('ZREM', base .. ':away', member)
    self.follow(string.sub(member, 1, 16))
  end

  -- The member of :away of a job, where somebody has it with that lease, or nil.
  function self.find_away(id, lease)
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', lease, lease)) do
      if string.sub(member, 17) == id then
        return member
      end
    end
  end

  -- An outcome of a job that does not count any more, of the one who has it with that lease.
  function self.returned(id, lease)
    local member = self.find_away(id, lease)
    if member then
      self.came_back(member)
    end
  end

  -- The codes of a script, with the first due time where a job has come to :delay from :held.
  function self.reply(codes)
    local text = table.concat(codes)
    if not self.promoted then
      return text
    end
    return { tonumber(redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2] or -1), text }
  end
  order_made = self
  return self
end

-- A job has left all indexes but :held for good, or (dead) to be a dead letter: where it was in front the next of
-- its group goes to :delay. One that is held is taken out; says whether it was. lease: somebody still
-- has it with that one; nil: nobody.
local function leave_group(id, dead, lease)
  return redis.call('HEXISTS', base .. ':place', id) == 1 and order().left(id, dead, lease)
end

-- Forgets jobs, but for their group. Gives how many bodies went.
local function forget(...)
  local bodies = redis.call('HDEL', pool, ...)
  if redis.call('HDEL', tries, ...) > 0 then
    redis.call('HDEL', base .. ':ended', ...)
  end
  if owners then
    redis.call('HDEL', owners, ...)
  end
  return bodies
end
