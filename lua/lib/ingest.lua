-- SPDX-License-Identifier: BSD-2-Clause
-- lib/ingest.lua - executes each Kafka record once, although a source may read it twice.
--
--   hash  :ingest  SOURCE/topic/partition  -> last offset executed in this bucket
--                  SOURCE/topic/partition@ -> that offset, a blank, and the highest timestamp in
--                                      ms of all records executed until then; and " over" if a later
--                                      incarnation was found
--
-- The name ends with ~N for a topic that was created again, *N for a route with N buckets, and +N for a rewind
-- (bridge/engine/job_id.h): a new reading starts without offsets. The field without +N keeps the highest offset of all.
--
-- Arguments: the number P of partitions, then two each: the name, and the offset sent before this batch ('' unknown).
-- If P > 0, the last argument of each record is its timestamp in ms, '' none.
--
-- A record at or below the kept offset, but above all timestamps executed until then, was never read before: the topic
-- was created again, or lost its end. Its id may be the one of an old job. So the script refuses it and
-- all later ones, and the source reads them again as another incarnation, with another name and other ids. The second
-- field counts only while it contains the kept offset. Why: docs/internals.md, "Incarnations and rewinds".
local INGEST_KEEP_MS = 24 * 3600 * 1000 -- of a queue: the number of queues is unlimited
local OVER = ' over'
local ingest_parts = {}
local ingest_rewound = false

-- Reads the partitions from ARGV[at] on. Returns the index of the next argument, and the number of
-- extra arguments of each record.
local function ingest_read(key, at)
  local n = tonumber(ARGV[at])
  for i = 1, n do
    local name, before = ARGV[at + 2 * i - 1], tonumber(ARGV[at + 2 * i])
    local kept = redis.call('HMGET', key, name, name .. '@')
    local have, newest, over = tonumber(kept[1] or -1), nil, false
    if kept[2] then
      local offset, ms, more = string.match(kept[2], '^(%d+) (%d+)(.*)$')
      if tonumber(offset) == have then
        newest, over = tonumber(ms), more == OVER
      end
    end
    local p = { name = name, before = before, have = have, last = have, newest = newest,
                most = newest or 0, gap = before and have < before, over = over }
    ingest_parts[i], ingest_parts[tostring(i)] = p, p
    p.first = string.match(name, '^(.-)%+')
    if p.first then
      p.had, ingest_rewound = tonumber(redis.call('HGET', key, p.first) or -1), true
    end
  end
  return at + 2 * n + 1, n > 0 and 1 or 0
end

-- Returns why a record must be skipped: k (READ_BEFORE) an earlier batch executed it; g (GAP) the
-- previous batch is missing; a (ANEW) it belongs to another incarnation; nil: execute it. part: index from 1, as text.
local function ingest_refuses(part, offset, ms)
  local p = ingest_parts[part]
  if not p then
    return nil
  elseif p.gap then
    return GAP
  end
  offset, ms = tonumber(offset), tonumber(ms)
  if offset <= p.have and not (ms and p.newest and ms > p.newest) then
    return READ_BEFORE
  elseif offset <= p.have or p.over then
    p.gap, p.over = true, true
    return ANEW
  end
  p.last = math.max(p.last, offset)
  p.most = math.max(p.most, ms or 0)
  return nil
end

-- Returns true if an earlier reading has executed this record.
local function ingest_had(part, offset)
  local p = ingest_parts[part]
  return p and p.first and tonumber(offset) <= p.had
end

-- Stores the offsets. of_queue: the hash expires.
local function ingest_note(key, of_queue)
  local noted = false
  for _, p in ipairs(ingest_parts) do
    if p.last > p.have or p.over then
      local most = p.most
      if p.have >= 0 and not p.newest then
        most = math.max(most, redis.call('TIME')[1] * 1000 + 999)
      end
      redis.call('HSET', key, p.name, p.last, p.name .. '@', p.last .. ' ' .. most .. (p.over and OVER or ''))
      noted = true
    end
    if p.first and p.last > p.had then
      redis.call('HSET', key, p.first, p.last)
    end
  end
  if noted and of_queue then
    redis.call('PEXPIRE', key, INGEST_KEEP_MS)
  end
end
