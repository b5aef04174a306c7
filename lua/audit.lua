-- SPDX-License-Identifier: BSD-2-Clause
-- audit.lua - checks one part of a bucket in use for contradictions. Each finding is judged within
-- one call, so concurrent changes cause no false findings.
--
-- Kinds of findings:
--   no-index  a job in no index. Repair: it goes to :delay, due now
--   twice     a job in several indexes. Repair: it stays in the one that delivers the stored job
--             (:delay before :held, :unack, :error, :done), because a lease may be an earlier job's
--   no-body   an id without a body. Repair: the id is removed
--   orphan    data of a job that is missing, or not in the state for it. Repair: it is removed
--   order     a group with held jobs but no front job, or with several. Repair: order is restored
--   sums      the sums disagree with the bucket (lib/sums.lua); id: the difference. Repair: adjusted
--   counts    number of indexed jobs minus jobs of :pool, where no finding above explains it; or
--             counted far jobs, or those of half hours, minus existing ones. In buckets with more slots than one step reads
--             (SLOTS_STEP) this is judged only if no far job changed meanwhile
-- Repairs rely on the order of the caller: the indexes, the other keys, :pool, the sums.
local INDEXES = { 'delay', 'held', 'unack', 'error', 'done' } -- of two indexes the first keeps the job
local HALVES_MAX = 100000 -- half hours, read at once
local SLOTS_STEP = 1000 -- fields of :slots; HSCAN returns a smaller hash at once
local out = { '0', 0, 0, 0, 0, 0, 0, 0, 0 }

local function key(name)
  return base .. ':' .. name
end

-- Reports a finding. Returns whether to repair it.
local function found(kind, id)
  push(out, kind, id)
  return repair
end

local function has_body(id)
  return redis.call('HEXISTS', pool, id) == 1
end

local function is_alive(id)
  return redis.call('ZSCORE', delay, id) or redis.call('ZSCORE', unack, id)
end

local function is_tried(id)
  return redis.call('HEXISTS', tries, id) == 1
end

-- Deletes what is left of a job without a body. With global ids its id may be that of a job in
-- another queue, whose entry stays.
local function forget_rests(id)
  local owner = owners and redis.call('HGET', owners, id)
  forget(id)
  if owner and owner ~= base then
    redis.call('HSET', owners, id, owner)
  end
  leave_group(id)
end

-- Returns for each id the indexes that contain it, with the member.
local function standing(ids)
  local at = {}
  for _, name in ipairs(INDEXES) do
    local members = ids
    if name == 'held' then
      members = {}
      for i, place in ipairs(redis.call('HMGET', key('place'), unpack(ids))) do
        members[i] = (place or '') .. ids[i]
      end
    end
    for i, score in ipairs(redis.call('ZMSCORE', key(name), unpack(members))) do
      at[i] = at[i] or {}
      at[i][#at[i] + 1] = score and { name = name, member = members[i] } or nil
    end
  end
  return at
end

local function look_at_pool(rows)
  local ids = {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = rows[i]
    out[3] = out[3] + #rows[i + 1]
  end
  for i, indexes in ipairs(#ids > 0 and standing(ids) or {}) do
    if #indexes == 0 and found('no-index', ids[i]) then
      order().place(ids[i], of_queue and now_us or now)
    elseif #indexes > 1 and found('twice', ids[i]) then
      for k = 2, #indexes do
        redis.call('ZREM', key(indexes[k].name), indexes[k].member)
      end
    end
  end
end

-- Each of the following checks one entry.
local function look_at_index(id)
  if not has_body(id) and found('no-body', id) then
    redis.call('ZREM', key(part), id)
    redis.call('ZREM', key('ttl'), id)
    forget_rests(id)
  end
end

local function look_at_held(member)
  local place, id = string.sub(member, 1, PLACE_BYTES), string.sub(member, PLACE_BYTES + 1)
  local group = string.sub(place, 1, 16)
  if not has_body(id) then
    if found('no-body', id) then
      forget_rests(id)
      redis.call('ZREM', key('held'), member)
    end
  elseif redis.call('HGET', key('place'), id) ~= place then
    if found('order', id) then -- not held at its own place; look_at_pool() repairs the job
      redis.call('ZREM', key('held'), member)
    end
  elseif redis.call('HEXISTS', key('lead'), group) == 0 and found('order', id) then
    order().follow(group)
  end
end

local function look_at_place(id, place)
  if not has_body(id) then
    if found('orphan', id) then
      leave_group(id)
    end
  elseif redis.call('HGET', key('lead'), string.sub(place, 1, 16)) ~= id and is_alive(id) and found('order', id) then
    redis.call('HDEL', key('place'), id) -- a second front job: remove it from the group
  end
end

local function look_at_away(member)
  if redis.call('HGET', key('lead'), string.sub(member, 1, 16)) ~= AWAY and found('orphan', string.sub(member, 17)) then
    redis.call('ZREM', key('away'), member)
  end
end

local waiting -- the groups in :away: few, and not for long
local function is_away(group)
  if not waiting then
    waiting = {}
    for _, member in ipairs(redis.call('ZRANGE', key('away'), 0, -1)) do
      waiting[string.sub(member, 1, 16)] = true
    end
  end
  return waiting[group]
end

local function look_at_lead(group, id)
  if group == '#' or (id == AWAY and is_away(group)) then
    return
  end
  local place = redis.call('HGET', key('place'), id)
  if not (place and string.sub(place, 1, 16) == group and is_alive(id)) and found('order', id) then
    order().follow(group)
  end
end

-- Returns a check for a hash or a set whose entries require is_there(id).
local function look_for(is_there, remove)
  return function(id)
    if not is_there(id) and found('orphan', id) then
      redis.call(remove, key(part), id)
    end
  end
end

-- The far jobs (lib/far.lua): first :slots, then the entries slot by slot, then :where. Cursor for :slots: s, the
-- cursor of HSCAN, and the counts so far. For entries: START.ORDINAL. For :where: w and the cursor of HSCAN.

-- Returns the id of an entry and whether it is in :where, or nil: the entry is invalid.
local function read_entry(entry, start)
  local ok, id, _, _, _, _, named = pcall(far().read, entry, start)
  if ok then
    return id, named
  end
end

local function look_at_entry(start, ordinal, list, index, entry)
  local id, named = read_entry(entry, start)
  if not id then
    if found('no-body', start .. '.' .. ordinal) then
      redis.call('LSET', list, index, '')
      redis.call('HINCRBY', key('slots'), '#', -1)
      redis.call('HINCRBY', key('slots'), start .. '.' .. math.floor(ordinal / FAR_PAGE) .. '-', 1)
      far().add_half(far().half(start), -1)
    end
    return
  end
  local place = redis.call('HGET', key('where'), id)
  if named and not place and not has_body(id) then
    if found('no-index', id) then
      redis.call('HSET', key('where'), id, struct.pack('>I6I4', start, ordinal))
    end
  elseif place and has_body(id) and found('twice', id) then
    redis.call('HDEL', key('where'), id) -- a client can no longer name it; move.lua renames it
  end
end

-- Checks entries of one list from an ordinal on. Returns the cursor: in this slot, at the next slot, or at :where.
local function look_at_slot(start, ordinal)
  local removed, size = far().span(start)
  ordinal = math.max(ordinal, removed)
  local page = math.floor(ordinal / FAR_PAGE)
  local list_end = math.min((page + 1) * FAR_PAGE, size)
  local list, index = far().list(start, ordinal, removed)
  if index == 0 and redis.call('LLEN', list) ~= math.max(list_end - ordinal, 0) then
    found('counts', start .. '.' .. page)
  end
  local entries = redis.call('LRANGE', list, index, index + count - 1)
  for i, entry in ipairs(entries) do
    out[3] = out[3] + #entry
    if entry ~= '' then
      look_at_entry(start, ordinal + i - 1, list, index + i - 1, entry)
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
    if (not entry or entry == '' or read_entry(entry, start) ~= id) and found('orphan', id) then
      redis.call('HDEL', key('where'), id)
    end
  end
  out[2] = #scan[2] / 2
  return scan[1] == '0' and '0' or 'w' .. scan[1]
end

-- Returns a text that changes whenever a far job is stored, removed or moved.
local function far_state()
  return string.format('%s %.0f %d', redis.call('HGET', key('sums'), 'stored') or 0, far().count(),
                       redis.call('ZCARD', key('far')))
end

-- Checks that the counts of all half hours add up to the far jobs. all: the jobs of all slots.
local function look_at_halves(all)
  local counted, halves = far().count(), 0
  local rows = redis.call('HSCAN', key('halves'), 0, 'COUNT', HALVES_MAX)[2]
  for i = 2, #rows, 2 do
    halves = halves + rows[i]
  end
  if halves ~= counted and halves ~= all and found('counts', string.format('halves %.0f', halves - counted)) then
    redis.call('DEL', key('halves'))
    for _, slot in ipairs(far_moves().slots('+inf')) do
      far().add_half(far().half(slot[1]), slot[2])
    end
  end
end

-- Checks that the counts of all slots add up to '#' and that :far contains each slot. If this needs
-- several steps, '#' is checked only if no far job changed meanwhile.
local function look_at_slots(from, all, was)
  local counted = far().count()
  local scan = redis.call('HSCAN', key('slots'), from, 'COUNT', SLOTS_STEP)
  local rows = scan[2]
  out[2] = #rows / 2
  for i = 1, #rows, 2 do
    local n, start, kind = tonumber(rows[i + 1]), string.match(rows[i], '^(%d*)[%d.]*(.?)$')
    if kind ~= '#' then
      all = all + (kind == '' and n or -n)
      if kind == '' and not redis.call('ZSCORE', key('far'), start) and found('no-index', start) then
        redis.call('ZADD', key('far'), start, start)
      end
    end
  end
  if scan[1] ~= '0' then
    return string.format('s%s %.0f %s', scan[1], all, was)
  end
  if all ~= counted and was == far_state() and found('counts', string.format('far %.0f', counted - all)) then
    redis.call('HSET', key('slots'), '#', all)
  end
  look_at_halves(all)
  local start = far().first()
  return start >= 0 and string.format('%.0f.0', start) or 'w0'
end

local function look_at_far()
  local kind, from, n, was = string.match(cursor, '^([sw]?)(%d+)[ .]?(%-?%d*) ?(.*)$')
  if kind == 'w' then
    return look_at_where(from)
  elseif kind == 's' or cursor == '0' then
    return look_at_slots(from, tonumber(n) or 0, kind == 's' and was or far_state())
  end
  return look_at_slot(tonumber(from), tonumber(n))
end

-- Returns the jobs that the bucket contains by its sums.
local function jobs_by_sums()
  local jobs = 0
  for i, n in ipairs(redis.call('HMGET', key('sums'), 'base', 'stored', 'delivered', 'cancelled', 'expired',
                                'exhausted', 'replaced', 'dropped')) do
    n = tonumber(n or 0) or 0
    jobs = jobs + (i <= 2 and n or -n)
  end
  return jobs
end

local function look_at_sums()
  out[4] = redis.call('HLEN', pool)
  local sum = -out[4]
  for i, name in ipairs({ 'delay', 'unack', 'error', 'held', 'done' }) do
    out[4 + i] = redis.call('ZCARD', key(name))
    sum = sum + out[4 + i]
  end
  local waiting_far = far().count()
  out[4], out[5] = out[4] + waiting_far, out[5] + waiting_far
  if sum ~= 0 then
    found('counts', string.format('%.0f', sum))
  end
  local gap = out[4] - out[9] - jobs_by_sums() -- negative: jobs are missing
  if gap ~= 0 and found('sums', string.format('%.0f', gap)) then
    redis.call('HINCRBY', key('sums'), 'base', gap)
  end
end

local LOOK = {
  delay = { 'ZSCAN', look_at_index }, unack = { 'ZSCAN', look_at_index },
  error = { 'ZSCAN', look_at_index }, done = { 'ZSCAN', look_at_index },
  held = { 'ZSCAN', look_at_held }, away = { 'ZSCAN', look_at_away },
  place = { 'HSCAN', look_at_place }, lead = { 'HSCAN', look_at_lead },
  tries = { 'HSCAN', look_for(has_body, 'HDEL') }, ended = { 'HSCAN', look_for(is_tried, 'HDEL') },
  ttl = { 'ZSCAN', look_for(is_alive, 'ZREM') },
}

local function scan_part()
  local scan = redis.call(part == 'pool' and 'HSCAN' or LOOK[part][1], key(part), cursor, 'COUNT', count)
  local rows = scan[2]
  out[1], out[2] = scan[1], #rows / 2
  if part == 'pool' then
    look_at_pool(rows)
    return
  end
  for i = 1, #rows, 2 do
    LOOK[part][2](rows[i], rows[i + 1])
  end
end

local was = repair and first_score(delay)
if repair then
  redis.call('ZREM', delay, '') -- never there
end
if part == 'sums' then
  look_at_sums()
elseif part == 'far' then
  out[1] = look_at_far()
else
  scan_part()
end
if repair then
  tell_head(was)
end
return out
