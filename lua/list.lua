-- SPDX-License-Identifier: BSD-2-Clause
-- list.lua - lists the jobs of one bucket, a page at a time. Changes nothing.
--
-- Scores are in ms; scores of a queue's :delay and of its far slots are in us.
local LOOK_MAX = 500
look = math.min(look, LOOK_MAX)
to_ms = to_ms or math.huge
local unit = of_queue and what == WHAT_WAITING and 1000 or 1 -- score units per ms
local looked, taken, bytes, full = 0, 0, 0, false
local out = { 0, 0, 0, -1, '' } -- the head of the reply, then the jobs

-- Counts one examined job as the last. record, expires: of a far job; record nil: it is in :pool.
local function take(score, ordinal, member, id, ms, named, record, expires)
  if string.sub(id, 1, #id_prefix) == id_prefix and ms >= from_ms and ms <= to_ms then
    record = brief and '' or record or redis.call('HGET', pool, id) or ''
    bytes = bytes + #record
    if taken > 0 and bytes > bytes_max then
      full = true
      return
    end
    if of_queue and ordinal < 0 and not brief then
      expires = tonumber(redis.call('ZSCORE', base .. ':ttl', id) or nil)
    end
    local note = ordinal < 0 and not brief and redis.call('HGET', tries, id) or ''
    for _, field in ipairs({ score, ordinal, member, id, ms, record, note, named, not brief and expires or -1 }) do
      out[#out + 1] = field
    end
    taken = taken + 1
  end
  looked = looked + 1
  out[2], out[3], out[4], out[5] = looked, score, ordinal, member
end

local function goes_on()
  return not full and looked < look and taken < max
end

-- How many to read at once: without id_prefix nearly all match.
local function reach()
  return math.min(look - looked, id_prefix == '' and max - taken or look)
end

-- Returns members of an index from the position of the page on: {member, score, ...}.
local function members(key)
  local rank
  if string.sub(least, 1, 1) == '(' then
    rank = redis.call('ZCOUNT', key, '-inf', string.sub(least, 2))
  elseif behind == '' then
    rank = redis.call('ZCOUNT', key, '-inf', '(' .. least)
  else
    rank = rank_behind(key, least, behind)
  end
  rank = math.max(rank, redis.call('ZCOUNT', key, '-inf', string.format('(%.0f', from_ms * unit)))
  local upto = rank + reach() + 1
  if to_ms < math.huge then
    upto = math.min(upto, redis.call('ZCOUNT', key, '-inf', string.format('%.0f', to_ms * unit)))
  end
  return upto > rank and redis.call('ZRANGE', key, rank, upto - 1, 'WITHSCORES') or {}
end

local function take_member(id, score)
  take(score, -1, id, id, math.ceil(score / unit), 1)
end

-- Returns the slots in order: {start, first ordinal to examine, ordinal behind the last}.
local SLOT_MAX_MS = 60000 -- no slot is wider
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
  local removed, size = far().span(start)
  return { ms = tonumber(start), removed = removed, at = math.max(first, removed), size = size }
end

-- Lists entries of a slot until the page is full. Reads some at once: an entry contains a whole record,
-- and few may match.
local AT_ONCE = 32
local read_bytes = 0
local function take_slot(slot)
  while slot.at < slot.size and goes_on() do
    local list, index = far().list(slot.ms, slot.at, slot.removed)
    local entries = redis.call('LRANGE', list, index, index + math.min(reach(), AT_ONCE) - 1)
    for _, entry in ipairs(entries) do
      if not goes_on() then
        return
      end
      local score = slot.ms * unit
      if entry == '' then
        looked = looked + 1
        out[2], out[3], out[4], out[5] = looked, score, slot.at, ''
      else
        local id, due, record, _, expires, named = far().read(entry, slot.ms)
        take(score, slot.at, '', id, math.ceil(due / unit), named and 1 or 0, record, expires)
      end
      if full then
        return
      end
      slot.at, read_bytes = slot.at + 1, read_bytes + #entry
      full = read_bytes > bytes_max
    end
    if #entries == 0 then -- the list is missing
      slot.at = (math.floor(slot.at / FAR_PAGE) + 1) * FAR_PAGE
    end
  end
end

-- Merges both tiers. Returns whether there may be more jobs.
local function list_waiting()
  if from_ms > 0 and least_slot == '-inf' then
    least_slot = string.format('%.0f', math.max(from_ms - SLOT_MAX_MS, 0))
  end
  local near, at, slot = members(delay), 1, next_slot()
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

-- Lists entries of an index, each step values. Returns whether there may be more jobs.
local function list_found(found, step, take_one)
  for at = 1, #found, step do
    if not goes_on() then
      return true
    end
    take_one(found[at], tonumber(found[at + 1]))
  end
  return full
end

local function list_in_flight()
  return list_found(members(unack), 2, take_member)
end

local function list_held()
  if string.sub(least, 1, 1) == '(' then
    return false
  end
  local from = behind == '' and '-' or '(' .. behind
  return list_found(redis.call('ZRANGEBYLEX', base .. ':held', from, '+', 'LIMIT', 0, look + 1), 1, function(member)
    take(0, -1, member, string.sub(member, PLACE_BYTES + 1), order().due(member), 1)
  end)
end

local LIST = { [WHAT_WAITING] = list_waiting, [WHAT_IN_FLIGHT] = list_in_flight, [WHAT_HELD] = list_held }
out[1] = LIST[what]() and 1 or 0
return out
