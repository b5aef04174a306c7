-- SPDX-License-Identifier: BSD-2-Clause
-- lib/far_audit.lua - the far jobs of a bucket (lib/far.lua) for lua/audit.lua, which checks first
-- :slots, then the entries slot by slot, then :where. Also contains what both parts share.
--
-- Cursor for :slots: s, the cursor of HSCAN, and the counts so far. For entries: START.ORDINAL. For
-- :where: w and the cursor of HSCAN.
local INDEXES = { 'delay', 'held', 'unack', 'error', 'done' } -- of two indexes the first keeps the job
local SLICE = 1000 -- limit of arguments of one call
local out = { '0', 0, 0, 0, 0, 0, 0, 0, 0 }

local function key(name)
  return base .. ':' .. name
end

local function found(kind, id)
  out[#out + 1] = kind
  out[#out + 1] = id
end

local function score_of(name, id)
  return redis.call('ZSCORE', key(name), id)
end

local function has_body(id)
  return redis.call('HEXISTS', key('pool'), id) == 1
end

local function slot_counts(start)
  local counts = redis.call('HMGET', key('slots'), start, start .. '<')
  return tonumber(counts[1] or 0), tonumber(counts[2] or 0)
end

-- Returns id, due time and named flag of an entry, or nil: the entry is invalid.
local function read_entry(entry, start)
  local ok, id, due, _, _, _, named = pcall(far().read, entry, start)
  if ok then
    return id, due, named
  end
end

local function look_at_entry(start, ordinal, list, index, entry)
  local id, _, named = read_entry(entry, start)
  if not id then
    found('no-body', start .. '.' .. ordinal)
    if repair then
      redis.call('LSET', list, index, '')
      redis.call('HINCRBY', key('slots'), '#', -1)
      redis.call('HINCRBY', key('slots'), start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-', 1)
    end
    return
  end
  local place, here = redis.call('HGET', key('where'), id), struct.pack('>I6I4', start, ordinal)
  if named and not place and not has_body(id) then
    found('no-index', id)
    if repair then
      redis.call('HSET', key('where'), id, here)
    end
  elseif place and has_body(id) then
    found('twice', id) -- a client can no longer name it; move.lua renames it
    if repair then
      redis.call('HDEL', key('where'), id)
    end
  end
end

-- Checks entries of one list from an ordinal on. Returns the cursor: in this slot, at the next
-- slot, or at :where.
local function look_at_slot(start, ordinal)
  local size, taken = slot_counts(start)
  ordinal = math.max(ordinal, taken)
  local page = math.floor(ordinal / FAR_PAGE)
  local first, list_end = math.max(page * FAR_PAGE, taken), math.min((page + 1) * FAR_PAGE, size)
  local list = far().list(start, ordinal)
  if ordinal == first and redis.call('LLEN', list) ~= math.max(list_end - first, 0) then
    found('counts', start .. '.' .. page)
  end
  local entries = redis.call('LRANGE', list, ordinal - first, ordinal - first + count - 1)
  for i, entry in ipairs(entries) do
    out[3] = out[3] + #entry
    if entry ~= '' then
      look_at_entry(start, ordinal + i - 1, list, ordinal - first + i - 1, entry)
    end
  end
  out[2] = #entries
  local upto = #entries == tonumber(count) and ordinal + #entries or list_end
  if upto < size then
    return start .. '.' .. upto
  end
  local following = redis.call('ZRANGEBYSCORE', key('far'), '(' .. start, '+inf', 'LIMIT', 0, 1)[1]
  return following and following .. '.0' or 'w0'
end

local function look_at_where(from)
  local scan = redis.call('HSCAN', key('where'), from, 'COUNT', count)
  for i = 1, #scan[2], 2 do
    local id = scan[2][i]
    local list, index, start = far().place(id)
    local entry = redis.call('LINDEX', list, index)
    if not entry or entry == '' or read_entry(entry, start) ~= id then
      found('orphan', id)
      if repair then
        redis.call('HDEL', key('where'), id)
      end
    end
  end
  out[2] = #scan[2] / 2
  return scan[1] == '0' and '0' or 'w' .. scan[1]
end

local SLOTS_STEP = 1000 -- fields of :slots; HSCAN returns a smaller hash at once

-- Returns a text that changes whenever a far job is stored, removed or moved.
local function far_state()
  return string.format('%s %.0f %d', redis.call('HGET', key('sums'), 'stored') or 0, far().count(),
                       redis.call('ZCARD', key('far')))
end

-- Checks that the counts of all slots add up to '#' and that :far contains each slot. If this needs
-- several steps, '#' is checked only if no far job changed meanwhile.
local function look_at_slots(from, all, was)
  local told, is = far().count(), far_state()
  local scan = redis.call('HSCAN', key('slots'), from, 'COUNT', SLOTS_STEP)
  local rows = scan[2]
  out[2] = #rows / 2
  for i = 1, #rows, 2 do
    local n, start, kind = tonumber(rows[i + 1]), string.match(rows[i], '^(%d*)[%d.]*(.?)$')
    if kind ~= '#' then
      all = all + (kind == '' and n or -n)
      if kind == '' and not score_of('far', start) then
        found('no-index', start)
        if repair then
          redis.call('ZADD', key('far'), start, start)
        end
      end
    end
  end
  if scan[1] ~= '0' then
    return string.format('s%s %.0f %s', scan[1], all, was or is)
  end
  if all ~= told and (was or is) == is then
    found('counts', string.format('far %.0f', told - all))
    if repair then
      redis.call('HSET', key('slots'), '#', all)
    end
  end
  local start = far().first()
  return start >= 0 and string.format('%.0f.0', start) or 'w0'
end

local function look_at_far()
  local kind, rest = string.sub(cursor, 1, 1), string.sub(cursor, 2)
  if cursor == '0' then
    return look_at_slots('0', 0)
  elseif kind == 's' then
    local from, all, was = string.match(rest, '^(%d+) (%-?%d+) (.*)$')
    return look_at_slots(from, tonumber(all), was)
  elseif kind == 'w' then
    return look_at_where(rest)
  end
  local start, ordinal = string.match(cursor, '^(%d+)%.(%d+)$')
  return look_at_slot(tonumber(start), tonumber(ordinal))
end
