-- SPDX-License-Identifier: BSD-2-Clause
-- list.lua - looks through the jobs of one bucket, a page at a time. Changes nothing.
--
--   KEYS[1]  hash  :pool    job id -> encoded job; the other keys are made of it
--   ARGV[1]  'w' those that wait for their time: of :delay by due time, and far ones (lib/far.lua)
--            by the start of their slot and in it as they came; 'h' those that wait behind others
--            of their group, group by group (lib/order.lua); 'f' those in flight, by the end of
--            their lease
--   ARGV[2]  'q' the bucket of a queue, '' of a route
--   ARGV[3]  beginning of the id   ARGV[4]  due, or end of the lease, not before this, ms
--   ARGV[5]  nor after this, ms; '' no end
--   ARGV[6]  where to go on: the least score, '(' before it: none of that score; of :held '0'
--   ARGV[7]  and of that score behind this member; '' from the first
--   ARGV[8]  the same of slots: the least start as a score, '(' as above
--   ARGV[9]  and of that slot the first ordinal
--   ARGV[10] how many that match at most   ARGV[11] how many to look at, at most 500
--   ARGV[12] bytes of records at most (the first comes whatever its size), and of far ones that
--            are looked at
--
-- Returns {more, looked, score, ordinal, member, row, row...}: more: 1 if there may be others behind
--   the one looked at last, which stands at score, ordinal (-1: it is not far) and member. Scores
--   are in ms, of a queue's :delay in us, of a far job's slot likewise. A row:
--   {score, ordinal, member, id, due or end of the lease in ms, encoded job, tries, named}; named: 0 a
--   far record of Kafka, whose id nobody can use before it has been moved.
-- Cost: O(k log n) for k looked at, and their records. Called by store_list() in bridge/store/store_list.c.
--#include lib/order.lua
--#include lib/far.lua
--#include lib/rank.lua
local what, of_queue, prefix = ARGV[1], ARGV[2] == 'q', ARGV[3]
local from_ms, to_ms = tonumber(ARGV[4]), tonumber(ARGV[5]) or math.huge
local LOOK_MAX = 500
local look = math.min(tonumber(ARGV[11]), LOOK_MAX)
local unit = of_queue and what == 'w' and 1000 or 1 -- of scores to a ms
local looked, last, rows, bytes, full = 0, { 0, -1, '' }, {}, 0, false

-- One was looked at. read: gives its record, of one that matches.
local function take(score, ordinal, member, id, ms, named, read)
  if string.sub(id, 1, #prefix) == prefix and ms >= from_ms and ms <= to_ms then
    local record = read()
    bytes = bytes + #record
    if #rows > 0 and bytes > tonumber(ARGV[12]) then
      full = true
      return
    end
    local tries = ordinal < 0 and redis.call('HGET', base .. ':tries', id) or ''
    rows[#rows + 1] = { score, ordinal, member, id, ms, record, tries, named }
  end
  looked, last = looked + 1, { score, ordinal, member }
end

local most = tonumber(ARGV[10])
local function goes_on()
  return not full and looked < look and #rows < most
end

-- How many are worth reading at once: without a beginning of the id nearly all of them match.
local function reach()
  return math.min(look - looked, prefix == '' and most - #rows or look)
end

-- Members of an index from where it goes on: {member, score, ...}.
local function members(key)
  local least, rank = ARGV[6], nil
  if string.sub(least, 1, 1) == '(' then
    rank = redis.call('ZCOUNT', key, '-inf', string.sub(least, 2))
  elseif ARGV[7] == '' then
    rank = redis.call('ZCOUNT', key, '-inf', '(' .. least)
  else
    rank = rank_behind(key, least, ARGV[7])
  end
  rank = math.max(rank, redis.call('ZCOUNT', key, '-inf', string.format('(%.0f', from_ms * unit)))
  local behind = rank + reach() + 1
  if to_ms < math.huge then
    behind = math.min(behind, redis.call('ZCOUNT', key, '-inf', string.format('%.0f', to_ms * unit)))
  end
  return behind > rank and redis.call('ZRANGE', key, rank, behind - 1, 'WITHSCORES') or {}
end

local function take_member(id, score)
  local ms = math.ceil(score / unit)
  take(score, -1, id, id, ms, 1, function()
    return redis.call('HGET', KEYS[1], id) or ''
  end)
end

-- The slots, one after another: {start, its first ordinal to look at, and the one behind its last}.
local SLOT_MAX_MS = 60000 -- no slot is wider
local least_slot, slot_at = ARGV[8], tonumber(ARGV[9])
if unit > 1 and least_slot ~= '-inf' then
  local open, score = string.match(least_slot, '^(%(?)(%d+)$')
  least_slot = string.format('%s%.0f', open, math.floor(score / unit))
end
local function next_slot()
  local start = redis.call('ZRANGEBYSCORE', base .. ':far', least_slot, '+inf', 'LIMIT', 0, 1)[1]
  if not start or tonumber(start) > to_ms then
    return nil
  end
  local first = tonumber(start) == tonumber(least_slot) and slot_at or 0
  least_slot = '(' .. start
  local counts = redis.call('HMGET', base .. ':slots', start, start .. '<')
  local taken = tonumber(counts[2] or 0)
  return { ms = tonumber(start), taken = taken, at = math.max(first, taken), size = tonumber(counts[1] or 0) }
end

-- How many entries to read at once: each is a whole record, and most may match nothing.
local entries_read, read_bytes, FIRST_STEP = 0, 0, 16
local function far_step()
  local room = (ARGV[12] - read_bytes) * entries_read / read_bytes -- at the size of those so far
  return math.max(1, math.min(reach(), read_bytes > 0 and math.floor(room) or FIRST_STEP))
end

-- Entries of a slot, as long as there is room.
local function take_slot(slot)
  while slot.at < slot.size and goes_on() do
    local first = math.max(math.floor(slot.at / FAR_PAGE) * FAR_PAGE, slot.taken)
    local index = slot.at - first
    local entries = redis.call('LRANGE', far_list(base, slot.ms, slot.at), index, index + far_step() - 1)
    for _, entry in ipairs(entries) do
      if not goes_on() then
        return
      end
      local score = slot.ms * unit
      if entry == '' then
        looked, last = looked + 1, { score, slot.at, '' }
      else
        local id, due, record, _, _, named = far_read(base, entry, slot.ms)
        take(score, slot.at, '', id, math.ceil(due / unit), named and 1 or 0, function()
          return record
        end)
      end
      if full then
        return
      end
      slot.at, entries_read, read_bytes = slot.at + 1, entries_read + 1, read_bytes + #entry
      full = read_bytes > tonumber(ARGV[12])
    end
    if #entries == 0 then -- a list is gone
      slot.at = (math.floor(slot.at / FAR_PAGE) + 1) * FAR_PAGE
    end
  end
end

-- Both tiers, merged. Says whether there may be more.
local function list_waiting()
  if from_ms > 0 and least_slot == '-inf' then
    least_slot = string.format('%.0f', math.max(from_ms - SLOT_MAX_MS, 0))
  end
  local near, at, slot = members(base .. ':delay'), 1, next_slot()
  while goes_on() do
    local score = tonumber(near[at + 1] or nil)
    if slot and not (score and score < slot.ms * unit) then
      take_slot(slot)
      if slot.at < slot.size then
        return true
      end
      slot = next_slot()
    elseif score then
      take_member(near[at], score)
      at = at + 2
    else
      return false
    end
  end
  return full or slot ~= nil or near[at] ~= nil
end

local function list_in_flight()
  local found = members(base .. ':unack')
  for at = 1, #found, 2 do
    if not goes_on() then
      return true
    end
    take_member(found[at], tonumber(found[at + 1]))
  end
  return full
end

local function list_held()
  if string.sub(ARGV[6], 1, 1) == '(' then
    return false
  end
  local least = ARGV[7] == '' and '-' or '(' .. ARGV[7]
  local found = redis.call('ZRANGEBYLEX', base .. ':held', least, '+', 'LIMIT', 0, look + 1)
  for _, member in ipairs(found) do
    if not goes_on() then
      return true
    end
    local id = string.sub(member, PLACE_BYTES + 1)
    take(0, -1, member, id, order_due(member), 1, function()
      return redis.call('HGET', KEYS[1], id) or ''
    end)
  end
  return full
end

local LIST = { w = list_waiting, f = list_in_flight, h = list_held }
local more = LIST[what]()
return { more and 1 or 0, looked, last[1], last[2], last[3], unpack(rows) }
