-- SPDX-License-Identifier: BSD-2-Clause
-- lib/far.lua - far jobs: jobs due later than the horizon. Compact lists store them until lua/move.lua moves them to
-- the normal indexes.
--
--   zset  :far    start of a slot in ms, scored by it: the slots that have entries
--   hash  :slots  START   -> number of entries ever added to that slot: the next ordinal
--                 START<  -> number of entries removed from its front
--                 START.PAGE- -> number of entries in that list whose job is gone
--                 '#'     -> jobs of all slots
--   hash  :halves  start of a half hour in ms -> jobs of the slots that start in it, if any (lua/ahead.lua)
--   list  :far:START.PAGE  the entries from ordinal FAR_PAGE * PAGE on; '' if the job is gone
--   hash  :where  job id -> start (6 bytes) and ordinal (4 bytes) of its entry, for each job whose
--                 id a client may name
--   hash  :names  TOPIC/PARTITION -> a number, that number -> TOPIC/PARTITION: prefixes of ids
--
-- An entry: flags (FAR_...), due time relative to START (2 bytes of ms, or 4 of us), length of the id (a byte), the id
-- (or the number of its prefix and the part after the slash), group (16 bytes) and arrival (6 bytes; lib/order.lua),
-- expiry (6 bytes of ms), the record (without its first 11 bytes if they follow from the due time).
--
-- Invariant: every id of :where has its entry and is not in :pool, except if a Kafka record of the same name was stored
-- later. A far job is in no other index.
local FAR_HALF_MS = 30 * 60000
local FAR_PAGE = 4096 -- entries per list; small, because Redis scans lists node by node
-- keys: the base of another queue of the sink; nil: this queue.
local function far(keys)
  keys = keys or base
  far_made = far_made or {}
  if far_made[keys] then
    return far_made[keys]
  end
  local FAR_NAMES = 255 -- limit of prefixes in :names
  local FAR_FORGET = 250 -- slots deleted in one call
  local FAR_WHERE = 1
  local FAR_GROUP = 2
  local FAR_EXPIRES = 4
  local FAR_US = 8
  local FAR_OFFSET = 16
  local FAR_BARE_FIRST = 32
  -- The first bytes of a record of bridge/job/job.c, before the due time: an array of four or six, version 1.
  local FAR_BARE = { [0x9401cf] = 32, [0x9601cf] = 64 }
  local FAR_HEAD = { [32] = '\148\1\207', [64] = '\150\1\207' }
  local self = {}
  local new_slots, new_order = {}, {} -- new entries: by slot start, and in order of creation
  local removed = {} -- slot start -> entries removed from its front; no script looks up jobs before it removes some
  local texts = {} -- cache of :names in both directions

  -- Returns the list of an entry and its index there. removed: entries removed from the front of the slot.
  function self.list(start, ordinal, removed)
    local page = math.floor(ordinal / FAR_PAGE)
    return keys .. ':far:' .. start .. '.' .. page, ordinal - math.max(page * FAR_PAGE, removed)
  end

  -- Returns the start of the first slot, or -1.
  function self.first()
    return first_score(keys .. ':far')
  end

  -- Returns the number of entries removed from the front of a slot, and of entries ever added to it.
  function self.span(start)
    local counts = redis.call('HMGET', keys .. ':slots', start .. '<', start)
    return tonumber(counts[1] or 0), tonumber(counts[2] or 0)
  end

  function self.count()
    return tonumber(redis.call('HGET', keys .. ':slots', '#') or 0)
  end

  -- Returns the start of the half hour that contains a time in ms.
  function self.half(ms)
    return ms - ms % FAR_HALF_MS
  end

  -- Adds n jobs to the count of a half hour.
  function self.add_half(half, n)
    local field = string.format('%.0f', half)
    if n ~= 0 and redis.call('HINCRBY', keys .. ':halves', field, n) == 0 then
      redis.call('HDEL', keys .. ':halves', field)
    end
  end

  -- Returns the number of a text of :names as a byte, or false: there are too many.
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

  -- Adds a job to a slot; self.flush() writes it. due: in ms, or in us if us is set. named: a
  -- client may name the job. Otherwise its id is beginning, slash and offset, unless beginning is
  -- nil. group: its group or false; arrival: order in the group; expires: ms or ''.
  function self.put(start, id, due, us, record, named, beginning, offset, group, arrival, expires)
    local rows = new_slots[start]
    if not rows then
      -- Entries. ids: job ids for :where. start: the slot start as text for Redis.
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
    local n = rows.n + 1
    local front = us and struct.pack('>BI4B', flags + FAR_US, due - start * 1000, #name) or
      struct.pack('>BI2B', flags, due - start, #name)
    rows[n] = front .. (number or '') .. name .. more .. record
    rows.n, rows.ids[n] = n, named and id
  end

  -- Appends the new entries of a slot that already has `from` entries, list by list. Adds the named jobs to `where`.
  local function far_append(rows, from, where)
    local at = 1
    while at <= rows.n do
      local room = FAR_PAGE - (from + at - 1) % FAR_PAGE
      local upto = math.min(at + math.min(room, 1000) - 1, rows.n)
      redis.call('RPUSH', self.list(rows.start, from + at - 1, 0), unpack(rows, at, upto))
      at = upto + 1
    end
    for i = 1, rows.n do
      if rows.ids[i] then
        push(where, rows.ids[i], struct.pack('>I6I4', rows.ms, from + i - 1))
      end
    end
  end

  -- Writes the new entries, one command per key. Redis out of memory rejects the first write of the
  -- script, so nothing is stored then.
  function self.flush()
    if #new_order == 0 then
      return
    end
    local fields, where, counts, new, halves = { '#' }, {}, {}, {}, {}
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
        push(new, rows.start, rows.start)
      end
      jobs = jobs + rows.n
      local half = self.half(rows.ms)
      halves[half] = (halves[half] or 0) + rows.n
    end
    counts[1], counts[2] = '#', jobs
    call_in_slices('HSET', keys .. ':where', where)
    call_in_slices('HSET', keys .. ':slots', counts)
    call_in_slices('ZADD', keys .. ':far', new)
    for half, n in pairs(halves) do
      self.add_half(half, n)
    end
    new_slots, new_order = {}, {}
  end

  -- Decodes an entry. Returns id, due time, record, group, expiry, whether its id is in :where, arrival.
  function self.read(entry, start)
    local flags, id, group, arrival, expires = string.byte(entry), nil, nil, nil, nil
    local us = bit.band(flags, FAR_US) ~= 0
    local due, length, at = struct.unpack(us and '>I4B' or '>I2B', entry, 2)
    due = due + (us and start * 1000 or start)
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

  -- Returns the list of a job's entry, its index there, its slot start and its ordinal. nil: no far job of that name.
  function self.place(id)
    local place = redis.call('HGET', keys .. ':where', id)
    if not place then
      return nil
    end
    local start, ordinal = struct.unpack('>I6I4', place)
    removed[start] = removed[start] or tonumber(redis.call('HGET', keys .. ':slots', start .. '<') or 0)
    local list, index = self.list(start, ordinal, removed[start])
    return list, index, start, ordinal
  end

  -- Returns due time, record, expiry, group and arrival of a far job, or nil.
  function self.find(id)
    local list, index, start = self.place(id)
    local entry = list and redis.call('LINDEX', list, index)
    if not entry or entry == '' then
      return nil
    end
    local _, due, record, group, expires, _, arrival = self.read(entry, start)
    return due, record, expires, group, arrival
  end

  -- Deletes the remains of slots without jobs, at most FAR_FORGET slots.
  function self.forget()
    local starts = redis.call('ZRANGE', keys .. ':far', 0, FAR_FORGET - 1)
    for _, start in ipairs(starts) do
      local size = tonumber(redis.call('HGET', keys .. ':slots', start) or 0)
      for ordinal = 0, size - 1, FAR_PAGE do
        local list = self.list(start, ordinal, 0) -- without the index, its second value
        redis.call('DEL', list)
        redis.call('HDEL', keys .. ':slots', start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-')
      end
    end
    if #starts > 0 then
      redis.call('HDEL', keys .. ':slots', unpack(starts))
      redis.call('ZREM', keys .. ':far', unpack(starts))
    end
    if #starts < FAR_FORGET then
      redis.call('DEL', keys .. ':slots', keys .. ':where', keys .. ':names', keys .. ':halves')
      removed, texts = {}, {}
    end
  end

  -- Removes the job of an entry. The last job also removes the remains of empty slots.
  local function drop(list, index, start, ordinal)
    redis.call('LSET', list, index, '')
    redis.call('HINCRBY', keys .. ':slots', start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-', 1)
    self.add_half(self.half(tonumber(start)), -1)
    if redis.call('HINCRBY', keys .. ':slots', '#', -1) == 0 then
      self.forget()
    end
  end

  -- Removes a far job. Returns the number of removed jobs.
  function self.take(id)
    local list, index, start, ordinal = self.place(id)
    if not list then
      return 0
    end
    redis.call('HDEL', keys .. ':where', id)
    drop(list, index, start, ordinal)
    return 1
  end

  -- Returns the list of the entry at that position, its index there, and the entry decoded by self.read(). nil: it
  -- is not the entry of that job.
  function self.at(start, ordinal, id)
    local first, size = self.span(start)
    if ordinal < first or ordinal >= size then
      return nil
    end
    local list, index = self.list(start, ordinal, first)
    local entry = redis.call('LINDEX', list, index)
    if entry and entry ~= '' then
      local read = { self.read(entry, tonumber(start)) }
      return read[1] == id and list or nil, index, read
    end
  end

  -- Returns when a far job expires, or nil. start '': its position is not known.
  function self.expiry(id, start, ordinal)
    if start == '' then
      return (select(3, self.find(id)))
    end
    local list, _, read = self.at(start, tonumber(ordinal), id)
    return list and read[5]
  end

  -- Removes the far job at that position, also one that no client may name. Returns its record, expiry, group,
  -- arrival, and an id that no other job has. nil: the job is not there.
  function self.take_at(start, ordinal, id)
    local list, index, read = self.at(start, ordinal, id)
    if not list then
      return nil
    elseif read[6] then
      redis.call('HDEL', keys .. ':where', id)
    elseif redis.call('HEXISTS', pool, id) == 1 or redis.call('HEXISTS', keys .. ':where', id) == 1 then
      id = id .. '/' .. start .. '.' .. ordinal -- as lib/far_move.lua renames it
    end
    drop(list, index, start, ordinal)
    return read[3], read[5], read[4], read[7], id
  end
  far_made[keys] = self
  return self
end
