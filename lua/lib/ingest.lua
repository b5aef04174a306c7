-- SPDX-License-Identifier: BSD-2-Clause
-- lib/ingest.lua - executes each Kafka record once, although a source may read it twice.
--
--   hash  :ingest  SOURCE/topic/partition  -> last offset executed in this bucket
--                  SOURCE/topic/partition@ -> that offset, a blank, and the highest timestamp in
--                                      ms of all records executed until then; and " over" if a later
--                                      incarnation was found
--
-- The name ends with ~N for a topic that was created again, *N for a route with N buckets, and +N for a rewind
-- (admit_set_origin() in bridge/engine/admit.c): a new reading starts without offsets. The fields without +N keep the
-- highest offset and timestamp of all.
--
-- Arguments: the number P of partitions, then three each: the name, the offset sent before this batch ('' unknown), and
-- the highest timestamp in ms sent before it ('' none). If P > 0, the last argument of each record is its timestamp in
-- ms, '' none.
--
-- A record at or below the kept offset (of all readings), but above all timestamps executed until then, was never read
-- before: the topic was created again, or lost its end. Its id may be the one of an old job. So the script refuses it
-- and all later ones, and the source reads them again as another incarnation, with another name and other ids. The same
-- comparison shows that the batch before this one is missing, although an old incarnation had its offsets. The second
-- field counts only while it contains the kept offset. Why: docs/internals.md, "Incarnations and rewinds".
local INGEST_KEEP_MS = 24 * 3600 * 1000 -- of a queue: the number of queues is unlimited
local OVER = ' over'
local ingest_parts = {}
local ingest_rewound = false

-- Returns the offset of a field (-1 none), the highest timestamp (nil unknown), and whether a later incarnation was
-- found.
local function ingest_kept(key, name)
  local kept = redis.call('HMGET', key, name, name .. '@')
  local have = tonumber(kept[1] or -1)
  local offset, ms, more = string.match(kept[2] or '', '^(%-?%d+) (%d+)(.*)$')
  if tonumber(offset) ~= have then
    return have, nil, false
  end
  return have, tonumber(ms), more == OVER
end

local function ingest_is_above(ms, newest)
  return ms and newest and ms > newest
end

-- Reads the partitions from ARGV[at] on. Returns the index of the next argument, and the number of
-- extra arguments of each record.
local function ingest_read(key, at)
  local n = tonumber(ARGV[at])
  for i = 1, n do
    local name, before, before_ms = ARGV[at + 3 * i - 2], tonumber(ARGV[at + 3 * i - 1]), tonumber(ARGV[at + 3 * i])
    local have, newest, over = ingest_kept(key, name)
    local p = { name = name, have = have, last = have, newest = newest, most = newest or 0, over = over }
    ingest_parts[i], ingest_parts[tostring(i)] = p, p
    p.first = string.match(name, '^(.-)%+')
    if p.first then
      p.had, p.newest_of_all, over = ingest_kept(key, p.first)
      p.over, ingest_rewound = p.over or over, true
    end
    p.gap = before and (have < before or not p.over and ingest_is_above(before_ms, newest))
  end
  return at + 3 * n + 1, n > 0 and 1 or 0
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
  if offset <= p.have and not ingest_is_above(ms, p.newest) then
    return READ_BEFORE
  elseif offset <= p.have or p.over or p.first and offset <= p.had and ingest_is_above(ms, p.newest_of_all) then
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

-- Stores the last offset of a field and the highest timestamp. newest: the one before, of the offset have.
local function ingest_keep(key, name, last, have, newest, most, over)
  most = math.max(most, newest or 0)
  if have >= 0 and not newest then
    most = math.max(most, redis.call('TIME')[1] * 1000 + 999)
  end
  redis.call('HSET', key, name, last, name .. '@', last .. ' ' .. most .. (over and OVER or ''))
end

-- Stores the offsets. of_queue: the hash expires.
local function ingest_note(key, of_queue)
  local noted = false
  for _, p in ipairs(ingest_parts) do
    if p.last > p.have or p.over then
      ingest_keep(key, p.name, p.last, p.have, p.newest, p.most, p.over)
      noted = true
    end
    if p.first and p.last > p.had then
      ingest_keep(key, p.first, p.last, p.had, p.newest_of_all, p.most, false)
    end
  end
  if noted and of_queue then
    redis.call('PEXPIRE', key, INGEST_KEEP_MS)
  end
end
