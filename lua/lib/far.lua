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
-- An entry: flags (FAR_...), due time behind START (2 bytes of ms, or 4 of us), length of the id (a
-- byte), the id (or the number of its beginning and what follows the slash behind that), group (16
-- bytes) and arrival (6 bytes; lib/order.lua), expiry (6 bytes of ms), the record. That of bridge/job/job.c is without its first 11 bytes,
-- where the due time in these is the entry's.
--
-- Holds before and after: the entry of an id of :where is there, and that id is not in :pool, unless a
-- record of Kafka came since that has its name; a job that stands here stands nowhere else. The
-- jobs of all lists are '#'.
local FAR_PAGE = 4096 -- entries of one list, which Redis walks node by node
-- keys: the base of another queue of the sink, nil: this one.
local function far(keys)
  keys = keys or base
  far_made = far_made or {}
  if far_made[keys] then
    return far_made[keys]
  end
  local FAR_NAMES = 255 -- at most
  local FAR_FORGET = 250 -- slots in one call
  local FAR_WHERE = 1
  local FAR_GROUP = 2
  local FAR_EXPIRES = 4
  local FAR_US = 8
  local FAR_OFFSET = 16
  local FAR_BARE_FIRST = 32
  -- What bridge/job/job.c begins a record with, before the due time: an array of four or six, version 1.
  local FAR_BARE = { [0x9401cf] = 32, [0x9601cf] = 64 }
  local FAR_HEAD = { [32] = '\148\1\207', [64] = '\150\1\207' }
  local self = {}
  local new_slots, new_order = {}, {} -- what is to be put into slots: by their starts, and as they came
  local taken = {} -- list -> entries taken off its slot; no script looks for jobs before it takes some
  local texts = {} -- of :names, as far as this call knows it, both ways

  function self.list(start, ordinal)
    return keys .. ':far:' .. start .. '.' .. math.floor(ordinal / FAR_PAGE)
  end

  -- The first slot, or -1.
  function self.first()
    return tonumber(redis.call('ZRANGE', keys .. ':far', 0, 0)[1] or -1)
  end

  function self.count()
    return tonumber(redis.call('HGET', keys .. ':slots', '#') or 0)
  end

  -- The number of a text of :names, as a byte, or false: there are too many already.
  local function far_number(text)
    if texts[text] == nil then
      local number = tonumber(redis.call('HGET', keys .. ':names', text) or nil)
      local count = number or redis.call('HLEN', keys .. ':names') / 2
      if not number and count < FAR_NAMES then
        number = count + 1
        redis.call('HSET', keys .. ':names', text, number, number, text)
      end
      texts[text] = number and string.char(number) or false
    end
    return texts[text]
  end

  local function far_text(number)
    texts[number] = texts[number] or redis.call('HGET', keys .. ':names', number) or '?'
    return texts[number]
  end

  -- A job is to be put into a slot; due in ms or, where us is set, in us; named: others may name it,
  -- else its id is beginning, slash, offset, or beginning is not given; group: or false, and when it
  -- arrived; expires: or ''.
  function self.put(start, id, due, us, record, named, beginning, offset, group, arrival, expires)
    local rows = new_slots[start]
    if not rows then
      -- Entries; ids: of those that go to :where; the start as a text, since Redis is told it often.
      rows = { n = 0, ids = {}, start = string.format('%.0f', start), ms = start }
      new_slots[start] = rows
      new_order[#new_order + 1] = rows
    end
    local flags, name = named and FAR_WHERE or 0, id
    local number = beginning and far_number(beginning)
    if number then
      flags, name = flags + FAR_OFFSET, offset
    end
    local due_ms = us and math.floor(due / 1000) or due
    if #record > 11 then
      local head, said = struct.unpack('>I3I8', record)
      if said == due_ms and FAR_BARE[head] then
        flags, record = flags + FAR_BARE[head], string.sub(record, 12)
      end
    end
    local more = ''
    if group then
      flags, more = flags + FAR_GROUP, group .. struct.pack('>I6', arrival)
    end
    if expires ~= '' then
      flags, more = flags + FAR_EXPIRES, more .. struct.pack('>I6', tonumber(expires))
    end
    local n, front = rows.n + 1, nil
    if us then
      front = struct.pack('>BI4B', flags + FAR_US, due - start * 1000, #name)
    else
      front = struct.pack('>BI2B', flags, due - start, #name)
    end
    rows[n] = front .. (number or '') .. name .. more .. record
    rows.n, rows.ids[n] = n, named and id
  end

  -- Appends what was put into one slot, which has so many entries already, a list at a time; notes
  -- where the jobs are that others may name.
  local function far_append(rows, from, where)
    local at = 1
    while at <= rows.n do
      local room = FAR_PAGE - (from + at - 1) % FAR_PAGE
      local upto = math.min(at + math.min(room, 1000) - 1, rows.n)
      redis.call('RPUSH', self.list(rows.start, from + at - 1), unpack(rows, at, upto))
      at = upto + 1
    end
    local place, n = nil, #where
    for i = 1, rows.n do
      if rows.ids[i] then
        place = place or struct.pack('>I6', rows.ms)
        where[n + 1], where[n + 2] = rows.ids[i], place .. struct.pack('>I4', from + i - 1)
        n = n + 2
      end
    end
  end

  -- Writes what was put, one command per key: when Redis is out of memory it refuses the first write
  -- of a script, and then nothing is stored.
  function self.flush()
    if #new_order == 0 then
      return
    end
    local fields, where, counts, new = { '#' }, {}, {}, {}
    for i, rows in ipairs(new_order) do
      fields[i + 1] = rows.start
    end
    local sizes = redis.call('HMGET', keys .. ':slots', unpack(fields))
    local jobs = tonumber(sizes[1] or 0)
    for i, rows in ipairs(new_order) do
      local from = tonumber(sizes[i + 1] or 0)
      far_append(rows, from, where)
      counts[2 * i + 1], counts[2 * i + 2] = rows.start, from + rows.n
      if from == 0 then
        new[#new + 1] = rows.start
        new[#new + 1] = rows.start
      end
      jobs = jobs + rows.n
    end
    counts[1], counts[2] = '#', jobs
    call_in_slices('HSET', keys .. ':where', where)
    call_in_slices('HSET', keys .. ':slots', counts)
    call_in_slices('ZADD', keys .. ':far', new)
    new_slots, new_order = {}, {}
  end

  -- Of an entry: id, due time, record, group, when it expires, whether its id is in :where, arrival.
  function self.read(entry, start)
    local flags, due, length, number, at = string.byte(entry), nil, nil, nil, nil
    local us = bit.band(flags, FAR_US) ~= 0
    if us then
      due, length, at = struct.unpack('>I4B', entry, 2)
      due = start * 1000 + due
    else
      due, length, at = struct.unpack('>I2B', entry, 2)
      due = start + due
    end
    local id, group, arrival, expires
    if bit.band(flags, FAR_OFFSET) ~= 0 then
      id = far_text(string.byte(entry, at)) .. '/' .. string.sub(entry, at + 1, at + length)
      at = at + 1 + length
    else
      id = string.sub(entry, at, at + length - 1)
      at = at + length
    end
    if bit.band(flags, FAR_GROUP) ~= 0 then
      group = string.sub(entry, at, at + 15)
      arrival, at = struct.unpack('>I6', entry, at + 16)
    end
    if bit.band(flags, FAR_EXPIRES) ~= 0 then
      expires, at = struct.unpack('>I6', entry, at)
    end
    local record, head = string.sub(entry, at), FAR_HEAD[flags - flags % FAR_BARE_FIRST]
    if head then
      record = head .. struct.pack('>I8', us and math.floor(due / 1000) or due) .. record
    end
    return id, due, record, group, expires, bit.band(flags, FAR_WHERE) ~= 0, arrival
  end

  -- Where the entry of a job is: its list, its index there, its start and its ordinal; nil: it is
  -- no far job, or nobody may name it.
  function self.place(id)
    local place = redis.call('HGET', keys .. ':where', id)
    if not place then
      return nil
    end
    local start, ordinal = struct.unpack('>I6I4', place)
    local list = self.list(start, ordinal)
    taken[list] = taken[list] or tonumber(redis.call('HGET', keys .. ':slots', start .. '<') or 0)
    local first = math.max(math.floor(ordinal / FAR_PAGE) * FAR_PAGE, taken[list])
    return list, ordinal - first, start, ordinal
  end

  -- Its due time, its record, when it expires, its group and when it arrived, or nil.
  function self.find(id)
    local list, index, start = self.place(id)
    local entry = list and redis.call('LINDEX', list, index)
    if not entry or entry == '' then
      return nil
    end
    local _, due, record, group, expires, _, arrival = self.read(entry, start)
    return due, record, expires, group, arrival
  end

  -- Deletes what slots without jobs have left, FAR_FORGET of them at most.
  function self.forget()
    local starts = redis.call('ZRANGE', keys .. ':far', 0, FAR_FORGET - 1)
    for _, start in ipairs(starts) do
      local size = tonumber(redis.call('HGET', keys .. ':slots', start) or 0)
      for ordinal = 0, size - 1, FAR_PAGE do
        redis.call('DEL', self.list(start, ordinal))
        redis.call('HDEL', keys .. ':slots', start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-')
      end
    end
    if #starts > 0 then
      redis.call('HDEL', keys .. ':slots', unpack(starts))
      redis.call('ZREM', keys .. ':far', unpack(starts))
    end
    if #starts < FAR_FORGET then
      redis.call('DEL', keys .. ':slots', keys .. ':where', keys .. ':names')
      taken, texts = {}, {}
    end
  end

  -- It goes, and with the last one what all have left, unless that is much. Gives how many did.
  function self.take(id)
    local list, index, start, ordinal = self.place(id)
    if not list then
      return 0
    end
    redis.call('HDEL', keys .. ':where', id)
    redis.call('LSET', list, index, '')
    redis.call('HINCRBY', keys .. ':slots', start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-', 1)
    if redis.call('HINCRBY', keys .. ':slots', '#', -1) == 0 then
      self.forget()
    end
    return 1
  end
  far_made[keys] = self
  return self
end
