-- SPDX-License-Identifier: BSD-2-Clause
-- lib/far.lua - jobs that are due later than the horizon: they wait in lists, as small as they can
-- be, until lua/move.lua takes them to where they wait for their time.
--
--   zset  :far    start of a slot of due time in ms, scored by it: the slots that have entries
--   hash  :slots  START   -> entries that were ever put into that slot, its next ordinal
--                 START<  -> of these taken from its front so far
--                 START.PAGE- -> entries of that list whose job has gone
--                 '#'     -> jobs of all slots
--   list  :far:START.PAGE  the entries of ordinals FAR_PAGE * PAGE and on; '' one whose job has gone
--   hash  :where  job id -> start (6 bytes) and ordinal (4 bytes) of its entry: of each job whose
--                 id anybody may name
--   hash  :names  TOPIC/PARTITION -> a number, that number -> TOPIC/PARTITION: ids begin so
--
-- An entry: flags (FAR_...), due time behind START (2 bytes of ms, or 4 of us), id (its length in
-- a byte before it; or the number of its beginning and 5 bytes of that which follows a slash), group
-- (16 bytes), expiry (6 bytes of ms), the record. It loses its due time (9 bytes behind the second
-- of bridge/job.c) where that is the entry's.
--
-- Holds before and after: an id of :where is not in :pool, and its entry is there; a job that stands
-- here stands nowhere else. The jobs of all lists are '#'.
local FAR_PAGE = 4096 -- entries of one list, which Redis walks node by node
local FAR_NAMES = 255 -- at most
local FAR_WHERE, FAR_GROUP, FAR_EXPIRES, FAR_US, FAR_OFFSET, FAR_BARE = 1, 2, 4, 8, 16, 32
local UINT64 = 0xcf -- of MessagePack
local far_rows, far_order = {}, {} -- start -> what is to be put there; the starts as they came
local far_texts = {} -- of :names, as far as this call knows it, both ways

local function far_list(keys, start, ordinal)
  return keys .. ':far:' .. start .. '.' .. math.floor(ordinal / FAR_PAGE)
end

-- The first slot, or -1.
local function far_first(keys)
  return tonumber(redis.call('ZRANGE', keys .. ':far', 0, 0)[1] or -1)
end

local function far_count(keys)
  return tonumber(redis.call('HGET', keys .. ':slots', '#') or 0)
end

-- The number of a text of :names, or nil: there are too many already.
local function far_number(keys, text)
  if far_texts[text] == nil then
    local number = tonumber(redis.call('HGET', keys .. ':names', text) or nil)
    local count = number or redis.call('HLEN', keys .. ':names') / 2
    if not number and count < FAR_NAMES then
      number = count + 1
      redis.call('HSET', keys .. ':names', text, number, number, text)
    end
    far_texts[text] = number or false
  end
  return far_texts[text]
end

local function far_text(keys, number)
  far_texts[number] = far_texts[number] or redis.call('HGET', keys .. ':names', number) or '?'
  return far_texts[number]
end

-- A job is to be put into a slot; due in ms or, where us is set, in us; named: others may name it,
-- else its id is beginning, slash, offset, or beginning is nil; group and expires may be nil.
local function far_put(keys, start, id, due, us, record, named, beginning, offset, group, expires)
  local rows = far_rows[start]
  if not rows then
    rows = { n = 0, ids = {} } -- those that go to :where
    far_rows[start] = rows
    far_order[#far_order + 1] = start
  end
  local due_ms = us and math.floor(due / 1000) or due
  local number = beginning and offset < 2 ^ 40 and far_number(keys, beginning)
  local flags = (named and FAR_WHERE or 0) + (us and FAR_US or 0) + (number and FAR_OFFSET or 0)
  local name = number and struct.pack('>BI5', number, offset) or string.char(#id) .. id
  if group then
    flags, name = flags + FAR_GROUP, name .. group
  end
  if expires then
    flags, name = flags + FAR_EXPIRES, name .. struct.pack('>I6', expires)
  end
  local at = us and struct.pack('>I4', due - start * 1000) or struct.pack('>I2', due - start)
  local n = rows.n + 1
  if string.byte(record, 3) == UINT64 and #record > 11 and struct.unpack('>I8', record, 4) == due_ms then
    rows[n] = string.char(flags + FAR_BARE) .. at .. name .. string.sub(record, 1, 2) .. string.sub(record, 12)
  else
    rows[n] = string.char(flags) .. at .. name .. record
  end
  rows.n, rows.ids[n] = n, named and id
end

-- Appends what was put into one slot, a list at a time; gives how many.
local function far_append(keys, start, rows, where)
  local from = tonumber(redis.call('HGET', keys .. ':slots', start) or 0)
  local at = 1
  while at <= rows.n do
    local room = FAR_PAGE - (from + at - 1) % FAR_PAGE
    local upto = math.min(at + math.min(room, 1000) - 1, rows.n)
    redis.call('RPUSH', far_list(keys, start, from + at - 1), unpack(rows, at, upto))
    at = upto + 1
  end
  local place = struct.pack('>I6', start)
  for i = 1, rows.n do
    if rows.ids[i] then
      where[#where + 1] = rows.ids[i]
      where[#where + 1] = place .. struct.pack('>I4', from + i - 1)
    end
  end
  redis.call('HSET', keys .. ':slots', start, from + rows.n)
  if from == 0 then
    redis.call('ZADD', keys .. ':far', start, start)
  end
  return rows.n
end

-- Writes what was put, a list at a time: when Redis is out of memory it refuses the first write of
-- a script, and then nothing is stored.
local function far_flush(keys)
  local n, where = 0, {}
  for _, start in ipairs(far_order) do
    n = n + far_append(keys, start, far_rows[start], where)
  end
  for from = 1, #where, 1000 do
    redis.call('HSET', keys .. ':where', unpack(where, from, math.min(from + 999, #where)))
  end
  if n > 0 then
    redis.call('HINCRBY', keys .. ':slots', '#', n)
    far_rows, far_order = {}, {}
  end
end

-- Of an entry: id, due time, record, group, when it expires, whether its id is in :where.
local function far_read(keys, entry, start)
  local flags, at = string.byte(entry), 4
  local us, due = bit.band(flags, FAR_US) ~= 0, nil
  if us then
    due, at = start * 1000 + struct.unpack('>I4', entry, 2), 6
  else
    due = start + struct.unpack('>I2', entry, 2)
  end
  local id, group, expires
  if bit.band(flags, FAR_OFFSET) ~= 0 then
    local number, offset = struct.unpack('>BI5', entry, at)
    id = string.format('%s/%.0f', far_text(keys, number), offset)
    at = at + 6
  else
    id = string.sub(entry, at + 1, at + string.byte(entry, at))
    at = at + 1 + #id
  end
  if bit.band(flags, FAR_GROUP) ~= 0 then
    group, at = string.sub(entry, at, at + 15), at + 16
  end
  if bit.band(flags, FAR_EXPIRES) ~= 0 then
    expires, at = struct.unpack('>I6', entry, at)
  end
  local record = string.sub(entry, at)
  if bit.band(flags, FAR_BARE) ~= 0 then
    local due_ms = us and math.floor(due / 1000) or due
    record = string.sub(record, 1, 2) .. struct.pack('>BI8', UINT64, due_ms) .. string.sub(record, 3)
  end
  return id, due, record, group, expires, bit.band(flags, FAR_WHERE) ~= 0
end

-- Where the entry of a job is: its list, its index there, its start and its ordinal; nil: it is
-- no far job, or nobody may name it.
local function far_place(keys, id)
  local place = redis.call('HGET', keys .. ':where', id)
  if not place then
    return nil
  end
  local start, ordinal = struct.unpack('>I6I4', place)
  local taken = tonumber(redis.call('HGET', keys .. ':slots', start .. '<') or 0)
  local first = math.max(math.floor(ordinal / FAR_PAGE) * FAR_PAGE, taken)
  return far_list(keys, start, ordinal), ordinal - first, start, ordinal
end

-- Its due time and its record, or nil.
local function far_find(keys, id)
  local list, index, start = far_place(keys, id)
  local entry = list and redis.call('LINDEX', list, index)
  if not entry or entry == '' then
    return nil
  end
  local _, due, record = far_read(keys, entry, start)
  return due, record
end

-- It goes. Gives how many did.
local function far_take(keys, id)
  local list, index, start, ordinal = far_place(keys, id)
  if not list then
    return 0
  end
  redis.call('HDEL', keys .. ':where', id)
  redis.call('LSET', list, index, '')
  redis.call('HINCRBY', keys .. ':slots', start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-', 1)
  redis.call('HINCRBY', keys .. ':slots', '#', -1)
  return 1
end

-- Deletes what slots without jobs have left.
local function far_forget(keys)
  for _, start in ipairs(redis.call('ZRANGE', keys .. ':far', 0, -1)) do
    local size = tonumber(redis.call('HGET', keys .. ':slots', start) or 0)
    for ordinal = 0, size - 1, FAR_PAGE do
      redis.call('DEL', far_list(keys, start, ordinal))
    end
  end
  redis.call('DEL', keys .. ':far', keys .. ':slots', keys .. ':where', keys .. ':names')
end
