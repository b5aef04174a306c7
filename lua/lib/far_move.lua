-- SPDX-License-Identifier: BSD-2-Clause
-- lib/far_move.lua - takes far jobs off the front of a slot, and puts them where they wait for their
-- time. Behind lib/far.lua.
local FAR_OFF_MS, FAR_EARLY_MIN_MS = 60000, 500 -- as in bridge/store/store_far.c

-- How early a slot is moved, in ms; horizon: 0: none is set.
local function far_early(horizon)
  return math.max(horizon > 0 and horizon / 2 or FAR_OFF_MS, FAR_EARLY_MIN_MS)
end

-- What is noted of a slot, of whose front entries are taken: so many of jobs, so many of none.
local function far_shrink(keys, start, from, upto, size, jobs, gone)
  local slots = keys .. ':slots'
  local list = start .. '.' .. math.floor(from / FAR_PAGE) .. '-'
  if jobs > 0 then
    redis.call('HINCRBY', slots, '#', -jobs)
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
  redis.call('ZREM', keys .. ':far', start)
  if redis.call('EXISTS', keys .. ':far') == 0 then
    redis.call('DEL', slots, keys .. ':names')
  end
end

-- The entries at the front of a slot, so many of them, fewer at the end of a list. Only read: an
-- error loses nothing.
local function far_front(keys, start, most)
  local counts = redis.call('HMGET', keys .. ':slots', start, start .. '<')
  local size, from = tonumber(counts[1] or 0), tonumber(counts[2] or 0)
  local list_end = math.min((math.floor(from / FAR_PAGE) + 1) * FAR_PAGE, size)
  local list = far_list(keys, start, from)
  local entries = redis.call('LRANGE', list, 0, math.max(math.min(most, list_end - from), 1) - 1)
  local jobs, known = {}, {}
  for i, entry in ipairs(entries) do
    if entry ~= '' then
      local job = { ordinal = from + i - 1 }
      job.id, job.due, job.record, job.group, job.expires, job.named, job.arrival = far_read(keys, entry, start)
      jobs[#jobs + 1] = job
      known[#known + 1] = job.named and job.id or nil
    end
  end
  return { start = start, list = list, jobs = jobs, known = known, taken = #entries, from = from,
           upto = #entries > 0 and from + #entries or list_end, size = size }
end

-- Takes them off. LTRIM is the first write: it is not refused when Redis is out of memory, nor is
-- what follows then.
local function far_pop(keys, front)
  redis.call('LTRIM', front.list, front.taken, -1)
  if #front.known > 0 then
    redis.call('HDEL', keys .. ':where', unpack(front.known))
  end
  far_shrink(keys, front.start, front.from, front.upto, front.size, #front.jobs, front.taken - #front.jobs)
end

-- A record of Kafka and a job of a producer may have one name, and a topic that was made anew has
-- the names of the old one: a job whose id is used goes on under a longer one.
local function far_rename(keys, jobs, start)
  local ids, used = {}, {}
  for i, job in ipairs(jobs) do
    ids[i] = job.id
  end
  local there = redis.call('HMGET', keys .. ':pool', unpack(ids))
  local where = keys .. ':where'
  local known = redis.call('EXISTS', where) == 1 and redis.call('HMGET', where, unpack(ids)) or {}
  for i, job in ipairs(jobs) do
    if there[i] or used[job.id] or (known[i] and not job.named) then
      job.id = job.id .. '/' .. start .. '.' .. job.ordinal
    end
    used[job.id] = true
  end
end

-- Moves entries of a slot, most <= 1000; gives how many jobs came to wait, entries taken, entries
-- entries left in it. place(id, due, group, arrival): for a job of a group (lib/order.lua).
local function far_move(keys, start, most, place)
  local front = far_front(keys, start, most)
  local jobs, left = front.jobs, front.size - front.upto
  if #jobs == 0 then
    far_pop(keys, front)
    return 0, front.taken, left
  end
  far_rename(keys, jobs, start)
  far_pop(keys, front)
  local bodies, dues, ends = {}, {}, {}
  for _, job in ipairs(jobs) do
    bodies[#bodies + 1] = job.id
    bodies[#bodies + 1] = job.record
    if not job.group then
      dues[#dues + 1] = job.due
      dues[#dues + 1] = job.id
    end
    if job.expires then
      ends[#ends + 1] = job.expires
      ends[#ends + 1] = job.id
    end
  end
  redis.call('HSET', keys .. ':pool', unpack(bodies))
  if #dues > 0 then
    redis.call('ZADD', keys .. ':delay', unpack(dues))
  end
  if #ends > 0 then
    redis.call('ZADD', keys .. ':ttl', unpack(ends))
  end
  for _, job in ipairs(jobs) do
    if job.group then
      place(job.id, job.due, job.group, job.arrival)
    end
  end
  return #jobs, front.taken, left
end

-- The slots that begin by then: {{start, jobs}, ...}.
local function far_span(keys, upto)
  local spans, slots = {}, keys .. ':slots'
  for i, start in ipairs(redis.call('ZRANGEBYSCORE', keys .. ':far', '-inf', upto)) do
    local counts = redis.call('HMGET', slots, start, start .. '<', start .. '.0-')
    local size = tonumber(counts[1] or 0)
    local jobs = size - tonumber(counts[2] or 0) - tonumber(counts[3] or 0)
    for page = 1, math.floor((size - 1) / FAR_PAGE) do
      jobs = jobs - tonumber(redis.call('HGET', slots, start .. '.' .. page .. '-') or 0)
    end
    spans[i] = { tonumber(start), jobs }
  end
  return spans
end
