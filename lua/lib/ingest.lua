-- SPDX-License-Identifier: BSD-2-Clause
-- lib/ingest.lua - carries each Kafka record out once, although it may be read twice.
--
--   hash  :ingest  SOURCE/topic/partition  -> last offset carried out in this bucket
--                  SOURCE/topic/partition@ -> that offset, a blank, and the highest timestamp in ms
--                                      of the records that were carried out until then
--
-- The name of a partition is that of a reading: SOURCE/topic/partition~N of a topic that was made anew,
-- with *N behind it of a route with N buckets, and +N of a route that reads the partition again (bridge/engine/name.h). So another reading
-- knows nothing of this one, and no bucket has to be visited. Of a rewound one the field without +N
-- stays the highest offset ever carried out: see ingest_had().
--
-- The arguments name the partitions of a batch: their number P, then two each: name, and the
-- offset sent before this batch ('' none known). Where P > 0 the last argument of each record is
-- its timestamp in ms, '' none.
--
-- A topic that was deleted and made anew under its name begins at offset 0 again, and one that
-- lost its end goes on at an offset that was there before. A record at or below the kept offset
-- whose timestamp is above every one carried out until then can't have been read before: with
-- it the partition begins anew, from its offset.
-- What holds, then: a record that was carried out is never carried out again, whatever the
-- clocks of the producers say, since its own timestamp is among the kept ones. A record of a new
-- topic is taken for an old one ('k') as long as no timestamp of the new topic is above those of
-- the old one: producers that set old timestamps, or none. For these the source begins another
-- reading (bridge/plugin.h), where it can tell.
-- The second field counts only while it speaks of the kept offset: an older version of tarry
-- moves the first one alone. Then the time of this call is taken for the highest timestamp.
--
-- The hash of a queue expires INGEST_KEEP_MS after the last record, since there may be any number of
-- queues. A record that is read again later is stored again if its id is not there any more. So an
-- instance that was down for longer may repeat what it had not committed.
local INGEST_KEEP_MS = 24 * 3600 * 1000
local ingest_parts, ingest_rewound = {}, false

-- Reads them from ARGV[at] on. Gives where the arguments go on, and how many more each record
-- has for it.
local function ingest_read(key, at)
  local n = tonumber(ARGV[at])
  for i = 1, n do
    local name, before = ARGV[at + 2 * i - 1], tonumber(ARGV[at + 2 * i])
    local kept = redis.call('HMGET', key, name, name .. '@')
    local have, newest = tonumber(kept[1] or -1), nil
    if kept[2] then
      local offset, ms = string.match(kept[2], '^(%d+) (%d+)$')
      newest = tonumber(offset) == have and tonumber(ms) or nil
    end
    ingest_parts[i] = { name = name, before = before, have = have, last = have, newest = newest,
                        most = newest or 0, gap = before and have < before }
    ingest_parts[tostring(i)] = ingest_parts[i]
    local plus = string.find(name, '+', 1, true)
    if plus then
      local first = string.sub(name, 1, plus - 1)
      ingest_parts[i].first, ingest_parts[i].had = first, tonumber(redis.call('HGET', key, first) or -1)
      ingest_rewound = true
    end
  end
  return at + 2 * n + 1, n > 0 and 1 or 0
end

-- Why a record is not to be carried out, part (a text) counting from 1: k an earlier batch has done so
-- g the batch before this one is missing   nil: it is to be.
local function ingest_refuses(part, offset, ms)
  local p = ingest_parts[part]
  if not p then
    return nil
  elseif p.gap then
    return 'g'
  end
  offset, ms = tonumber(offset), tonumber(ms)
  if offset <= p.have then
    if not (ms and p.newest and ms > p.newest) then
      return 'k'
    elseif p.before then
      p.gap = true -- what was sent before it is of the new topic too, and is not here
      return 'g'
    end
    p.have, p.last, p.anew = offset - 1, offset, true
  end
  p.last = math.max(p.last, offset)
  p.most = math.max(p.most, ms or 0)
  return nil
end

-- A record that is carried out now was carried out in an earlier reading.
local function ingest_had(part, offset)
  local p = ingest_parts[part]
  return p and p.first and tonumber(offset) <= p.had
end

-- of_queue: the hash expires.
local function ingest_note(key, of_queue)
  local noted = false
  for _, p in ipairs(ingest_parts) do
    if p.anew or p.last > p.have then
      local most = p.most
      if p.have >= 0 and not p.newest then
        most = math.max(most, redis.call('TIME')[1] * 1000 + 999)
      end
      redis.call('HSET', key, p.name, p.last, p.name .. '@', p.last .. ' ' .. most)
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
