-- SPDX-License-Identifier: BSD-2-Clause
-- lib/ingest.lua - carries each Kafka record out once, although it may be read twice.
--
--   hash  :ingest  topic/partition -> last offset carried out in this bucket
--
-- The arguments name the partitions of a batch: their number P, then three each: name, offset
-- sent before this batch ('' none known), last offset of this batch.
local ingest_parts = {}

-- Reads them from ARGV[at] on. Gives where the arguments go on.
local function ingest_read(key, at)
  local n = tonumber(ARGV[at])
  for i = 1, n do
    local from = at + 3 * i - 2
    local name, before, last = ARGV[from], tonumber(ARGV[from + 1]), tonumber(ARGV[from + 2])
    local have = tonumber(redis.call('HGET', key, name) or -1)
    ingest_parts[i] = { name = name, have = have, last = last, gap = before and have < before }
  end
  return at + 3 * n + 1
end

-- Why a record is not to be carried out, part counting from 1: k an earlier batch has done so
-- g the batch before this one is missing   nil: it is to be.
local function ingest_refuses(part, offset)
  local p = ingest_parts[tonumber(part)]
  if p and p.gap then
    return 'g'
  end
  return p and tonumber(offset) <= p.have and 'k' or nil
end

local function ingest_note(key)
  for _, part in ipairs(ingest_parts) do
    if not part.gap and part.last > part.have then
      redis.call('HSET', key, part.name, part.last)
    end
  end
end
