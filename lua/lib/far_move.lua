-- SPDX-License-Identifier: BSD-2-Clause
-- lib/far_move.lua - moves far jobs from the front of a slot to the normal indexes.
local FAR_OFF_MS = 60000 -- as in bridge/store/store_far.c
local FAR_EARLY_MIN_MS = 500
local function far_moves()
  if far_moves_made then
    return far_moves_made
  end
  local self, tier = {}, far()

  -- Returns how long before its start a slot is moved, in ms. horizon 0: not set.
  function self.early(horizon)
    return math.max(horizon > 0 and horizon / 2 or FAR_OFF_MS, FAR_EARLY_MIN_MS)
  end

  -- Updates the counts of a slot after entries were removed from its front. jobs: removed entries
  -- with a job; gone: removed entries without a job.
  local function shrink(start, from, upto, size, jobs, gone)
    local slots = base .. ':slots'
    local list = start .. '.' .. math.floor(from / FAR_PAGE) .. '-'
    if jobs > 0 then
      redis.call('HINCRBY', slots, '#', -jobs)
      tier.add_half(tier.half(start), -jobs)
    end
    if upto % FAR_PAGE == 0 or upto == size then
      redis.call('HDEL', slots, list)
    elseif gone > 0 then
      redis.call('HINCRBY', slots, list, -gone)
    end
    if upto < size then
      redis.call('HSET', slots, start .. '<', upto)
      return
    end
    redis.call('HDEL', slots, start, start .. '<')
    redis.call('ZREM', base .. ':far', start)
    if redis.call('EXISTS', base .. ':far') == 0 then
      redis.call('DEL', slots, base .. ':names', base .. ':halves')
    end
  end

  -- Reads up to most entries from the front of a slot, but only from one list. Does not write, so
  -- an error loses nothing.
  function self.front(start, most)
    local from, size = tier.span(start)
    local list_end = math.min((math.floor(from / FAR_PAGE) + 1) * FAR_PAGE, size)
    local list = tier.list(start, from, from)
    local entries = redis.call('LRANGE', list, 0, math.max(math.min(most, list_end - from), 1) - 1)
    local jobs, known = {}, {}
    for i, entry in ipairs(entries) do
      if entry ~= '' then
        local job = { ordinal = from + i - 1 }
        job.id, job.due, job.record, job.group, job.expires, job.named, job.arrival = tier.read(entry, start)
        jobs[#jobs + 1] = job
        known[#known + 1] = job.named and job.id or nil
      end
    end
    return { start = start, list = list, jobs = jobs, known = known, taken = #entries, from = from,
             upto = #entries > 0 and from + #entries or list_end, size = size }
  end

  -- Removes these entries. LTRIM is the first write; Redis out of memory rejects neither LTRIM nor
  -- the writes after it.
  function self.pop(front)
    redis.call('LTRIM', front.list, front.taken, -1)
    if #front.known > 0 then
      redis.call('HDEL', base .. ':where', unpack(front.known))
    end
    shrink(front.start, front.from, front.upto, front.size, #front.jobs, front.taken - #front.jobs)
  end

  -- Renames jobs whose id is already used. A Kafka record and a producer's job may have the same
  -- id, and so may records of a topic that was created again.
  local function rename(jobs, start)
    local ids, used = {}, {}
    for i, job in ipairs(jobs) do
      ids[i] = job.id
    end
    local there = redis.call('HMGET', pool, unpack(ids))
    local where = base .. ':where'
    local known = redis.call('EXISTS', where) == 1 and redis.call('HMGET', where, unpack(ids)) or {}
    for i, job in ipairs(jobs) do
      if there[i] or used[job.id] or (known[i] and not job.named) then
        job.id = job.id .. '/' .. start .. '.' .. job.ordinal
      end
      used[job.id] = true
    end
  end

  -- Moves at most `most` (<= 1000) entries of a slot. Returns the number of moved jobs, of removed
  -- entries, and of entries left in the slot.
  function self.move(start, most)
    local front = self.front(start, most)
    local jobs, left = front.jobs, front.size - front.upto
    if #jobs == 0 then
      self.pop(front)
      return 0, front.taken, left
    end
    rename(jobs, start)
    self.pop(front)
    local bodies, dues, ends = {}, {}, {}
    for _, job in ipairs(jobs) do
      push(bodies, job.id, job.record)
      if not job.group then
        push(dues, job.due, job.id)
      end
      if job.expires then
        push(ends, job.expires, job.id)
      end
    end
    call_in_slices('HSET', pool, bodies)
    call_in_slices('ZADD', delay, dues)
    call_in_slices('ZADD', base .. ':ttl', ends)
    for _, job in ipairs(jobs) do
      if job.group then
        order().place(job.id, job.due, job.group, job.arrival)
      end
    end
    return #jobs, front.taken, left
  end

  -- Returns the slots that start at upto or before: {{start, jobs}, ...}. most: at most so many; nil: all.
  function self.slots(upto, most)
    local slots = {}
    for i, start in ipairs(redis.call('ZRANGEBYSCORE', base .. ':far', '-inf', upto, 'LIMIT', 0, most or -1)) do
      local removed, size = tier.span(start)
      local jobs = size - removed
      for page = 0, math.floor((size - 1) / FAR_PAGE) do
        jobs = jobs - tonumber(redis.call('HGET', base .. ':slots', start .. '.' .. page .. '-') or 0)
      end
      slots[i] = { tonumber(start), jobs }
    end
    return slots
  end
  far_moves_made = self
  return self
end
