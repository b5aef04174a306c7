-- SPDX-License-Identifier: BSD-2-Clause
-- lib/order.lua - the order of jobs by key in the bucket of a route, and the final removal of a job.
--
--   hash  :place  job id -> its group, due time and arrival, PLACE_BYTES in all
--   hash  :lead   group -> id of its front job, or AWAY; '#' -> arrivals so far
--   zset  :away   group .. id of a front job that was replaced in flight or acked by an earlier lease, scored by the end
--                 of its lease in ms: the group waits for the outcome of that lease or for its end (reap.lua)
--   zset  :held   place .. id of the jobs behind the front job; all scores are 0, so the order is that of the texts
--
-- A group is a text of 16 bytes that the daemon derives from a key. Invariant: at most one job of each group is in
-- :delay, :unack or :away. If there is none, :held has no job of the group. A job without a place is not ordered. A
-- dead letter keeps its place, which contains its group. The front job stays in front until it leaves the bucket,
-- also while it waits for a retry. Exception: if it was not claimed since it was placed, a job due earlier replaces
-- it.
local PLACE_BYTES = 48
local AWAY = '' -- in :lead and :away: no job id
local function order()
  if order_made then
    return order_made
  end
  local self = { promoted = false } -- promoted: a job moved from :held to :delay

  function self.group(id)
    local place = redis.call('HGET', base .. ':place', id)
    return place and string.sub(place, 1, 16)
  end

  -- Formats a number of a place with fixed width, so that texts sort like numbers. %d has only 32
  -- bits on some machines.
  local function wide(n)
    return string.format('%016.0f', math.min(math.max(tonumber(n), 0), 1e15))
  end

  function self.due(place)
    return tonumber(string.sub(place, 17, 32))
  end

  function self.arrival()
    return redis.call('HINCRBY', base .. ':lead', '#', 1)
  end

  -- Stores the place of a job, which is all that a dead letter needs, and returns it. arrival nil:
  -- next arrival number.
  function self.note(id, due, group, arrival)
    arrival = arrival or self.arrival()
    local place = group .. wide(due) .. wide(arrival)
    redis.call('HSET', base .. ':place', id, place)
    return place
  end

  -- Adds a job that is in no index to :delay or :held, due in ms. group nil: the remembered group,
  -- if any. arrival: see self.note(). Returns true if the job is in :delay.
  function self.place(id, due, group, arrival)
    group = group or self.group(id)
    if not group then
      redis.call('ZADD', delay, due, id)
      return true
    end
    local place = self.note(id, due, group, arrival)
    local front = redis.call('HGET', base .. ':lead', group)
    local waits = front == AWAY
    if front and front ~= AWAY and front ~= id then
      local score = tonumber(redis.call('ZSCORE', delay, front) or nil)
      local its = redis.call('HGET', base .. ':place', front)
      waits = score ~= self.due(its) or place > its
      if not waits then
        redis.call('ZREM', delay, front)
        redis.call('ZADD', base .. ':held', 0, its .. front)
      end
    end
    if waits then
      redis.call('ZADD', base .. ':held', 0, place .. id)
      return false
    end
    redis.call('HSET', base .. ':lead', group, id)
    redis.call('ZADD', delay, self.due(place), id)
    return true
  end

  -- Moves the next job of a group without a front job to :delay.
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

  -- See leave_group() below.
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

  -- Returns the member of :away for this job and lease, or nil.
  function self.find_away(id, lease)
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', lease, lease)) do
      if string.sub(member, 17) == id then
        return member
      end
    end
  end

  -- Ends the wait of a group for this lease: its holder reported an outcome.
  function self.returned(id, lease)
    local member = self.find_away(id, lease)
    if member then
      self.came_back(member)
    end
  end

  -- Returns the codes of a script; if a job moved from :held to :delay, also the first due time.
  function self.reply(codes)
    local text = table.concat(codes)
    if not self.promoted then
      return text
    end
    return { first_score(delay), text }
  end
  order_made = self
  return self
end

-- Updates the group of a job that left all indexes except :held, for good or (dead) as a dead letter. If it was the
-- front job, the next job of the group goes to :delay. If it was held, removes it from :held and returns true. lease:
-- a worker still holds this lease; nil: no worker does.
local function leave_group(id, dead, lease)
  return redis.call('HEXISTS', base .. ':place', id) == 1 and order().left(id, dead, lease)
end

-- Deletes all data of jobs except their group. Returns the number of deleted bodies.
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

-- Deletes a job that the caller has removed from its index, and counts it as kind (lib/sums.lua). mine: the lease
-- that ends it, '' none; held: its present lease, or nil. Returns true if the job was held behind its group.
local function remove(id, kind, mine, held)
  outdate(id, mine, held)
  sums_add(kind, forget(id))
  return leave_group(id)
end

-- Marks a job in flight as cancelled: it is not retried and never becomes a dead letter. The mark replaces the reason
-- (also `paced`) in :tries.
local function mark_cancelled(id)
  local note = redis.call('HGET', tries, id) or ''
  local marked, n = string.gsub(note, '^(%d+)|[^|]*|', '%1|cancelled|')
  redis.call('HSET', tries, id, n == 1 and marked or '0|cancelled|0/0/0|0|0|')
end
