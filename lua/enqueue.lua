-- SPDX-License-Identifier: BSD-2-Clause
-- enqueue.lua - stores a batch of jobs in one bucket, each id once, each Kafka record once.
--
-- If groups keep their order, a replacement of a job in flight, or of a cancelled one, waits for the end of that lease
-- (lib/order.lua). Repeatable: a second run answers EXISTS or READ_BEFORE. It answers STORED if the change is marked as
-- sent again and the job is there as stored, and the same as before for a replacement with a number. Without a number a
-- replacement may answer REPLACED, and then changes only the tries of the job.
local argv = ARGV -- a local variable is faster
if not of_queue and tonumber(redis.call('HGET', base .. ':sums', 'epoch') or 0) > (epoch or 0) then
  return redis.error_reply('FENCED the number of buckets of the route has changed, or another instance is changing it')
end

local was = first_score(delay)
local ingest, ttl, done = base .. ':ingest', base .. ':ttl', base .. ':done'
local first_row, stamped = ingest_read(ingest, PARTS)
local FIELDS = ROW + (by_key and 1 or 0) + stamped
local slot = tonumber(redis.call('ZRANGE', base .. ':far', 0, 0)[1] or -1)

-- Removes a job of a queue in any state. An ended job was counted before. Returns the number of newly counted jobs.
local function leave(id, keys, kind)
  if keys == base then
    outdate(id, '', redis.call('ZSCORE', unack, id))
  end
  local ended = redis.call('ZREM', keys .. ':done', id)
  for _, part in ipairs({ ':delay', ':unack', ':error', ':ttl' }) do
    redis.call('ZREM', keys .. part, id)
  end
  redis.call('HDEL', keys .. ':tries', id)
  redis.call('HDEL', keys .. ':ended', id)
  local waited = redis.call('EXISTS', keys .. ':far') == 1 and far(keys).take(id) or 0
  local n = redis.call('HDEL', keys .. ':pool', id) - ended + waited
  sums_add(kind, n, keys)
  return n
end

local is_far = {} -- ids of far jobs as changed by this call

-- Handles a job whose id is used. Returns its answer letter.
local function replace(id, how, record)
  if is_far[id] then
    if how ~= HOW_REPLACE then
      return EXISTS
    end
    is_far[id] = nil
    sums_add('replaced', far().take(id))
    return REPLACED
  elseif of_queue then
    local over = tonumber(redis.call('ZSCORE', ttl, id) or nil)
    over = over and over <= now
    if how ~= HOW_REPLACE and not over and not redis.call('ZSCORE', done, id) then
      return EXISTS
    end
    return leave(id, base, over and 'expired' or 'replaced') == 0 and STORED or over and OUTLIVED or REPLACED
  end
  local flies = redis.call('ZSCORE', unack, id)
  local cancelled = flies and string.find(redis.call('HGET', tries, id) or '', IS_CANCELLED)
  if how ~= HOW_REPLACE and not cancelled and not (how == HOW_BACK and flies) then
    return EXISTS
  elseif flies and not cancelled and redis.call('HGET', pool, id) == record then
    return SAME
  end
  for _, key in ipairs({ delay, unack, dead }) do
    redis.call('ZREM', key, id)
  end
  outdate(id, '', flies)
  sums_add('replaced', forget(id))
  leave_group(id, false, flies)
  return flies and OVERTOOK or REPLACED
end

-- Writes are collected into one command per key. :pool is written first: Redis out of memory
-- rejects the first write, and then nothing is stored.
local pending, placed = {}, {} -- pending: key -> {field, value, ...} or {score, member, ...}
local bodies, body_n, dues, due_n = {}, 0, {}, 0 -- for :pool and :delay
local function write(key, a, b)
  pending[key] = pending[key] or {}
  push(pending[key], a, b)
end
local function flush()
  if body_n > 0 then
    redis.call('HSET', pool, unpack(bodies, 1, body_n))
    body_n = 0
  end
  if due_n > 0 then
    redis.call('ZADD', delay, unpack(dues, 1, due_n))
    due_n = 0
  end
  for key, list in pairs(pending) do
    redis.call((key == tries or key == owners) and 'HSET' or 'ZADD', key, unpack(list))
  end
  pending = {}
  if far_made then
    far().flush()
  end
  for _, job in ipairs(placed) do
    local place = job.dead and order().note or order().place
    place(job.id, job.due, job.group, job.arrival)
  end
  placed = {}
end

-- Adds a job to the index that how requires. i: its number in the call. A replacement of a job in
-- flight is due at least a ms later, so that no claim of it has the same token.
local function put(i, id, at, how, code)
  local due, group = argv[at + DUE], by_key and argv[at + GROUP]
  bodies[body_n + 1], bodies[body_n + 2] = id, argv[at + RECORD]
  body_n = body_n + 2
  if argv[at + TRIES] ~= '' then
    write(tries, id, argv[at + TRIES])
  end
  if argv[at + EXPIRES_MS] ~= '' and how ~= HOW_DEAD then
    write(ttl, argv[at + EXPIRES_MS], id)
  end
  if due == '' then
    due = (of_queue and how ~= HOW_DEAD and how ~= HOW_IN_FLIGHT) and now_us + i - 1 or now
  end
  if code == OVERTOOK then
    due = math.max(tonumber(due), now + 1)
  end
  local ordered = group and group ~= '' and how ~= HOW_IN_FLIGHT
  if ordered then
    placed[#placed + 1] = { id = id, due = due, group = group, dead = how == HOW_DEAD, arrival = order().arrival() }
  end
  if how == HOW_DEAD or how == HOW_IN_FLIGHT then
    write(how == HOW_DEAD and dead or unack, due, id)
  elseif not ordered then
    dues[due_n + 1], dues[due_n + 2] = due, id
    due_n = due_n + 2
  end
end

local FAR_HOW = { [''] = true, [HOW_UNNAMED] = true, [HOW_REPLACE] = true, [HOW_BACK] = true }
local FAR_RECORD_BYTES, FAR_ID_BYTES, FAR_WIDTH = 4096, 255, 60000 -- at most
local FAR_END_MS = 1e14 -- limit of slot starts: Lua writes later ones with an exponent
horizon = horizon or 0
local width = math.min(FAR_WIDTH, math.max(1000, math.floor(horizon / 2)))

-- A job due at this time or earlier is near. Compared as texts, which is faster.
local near = horizon > 0 and string.format('%.0f', (now + horizon) * (of_queue and 1000 or 1))

-- Returns the slot of the job whose arguments start there, or nil if it is near; and its due time.
local function slot_of(at, how)
  local text = argv[at + DUE]
  if #text < #near or (#text == #near and text <= near) or not FAR_HOW[how] or argv[at + TRIES] ~= '' or
    #argv[at + RECORD] > FAR_RECORD_BYTES or #argv[at] > FAR_ID_BYTES then
    return nil
  end
  local due = tonumber(text)
  local ms = of_queue and math.floor(due / 1000) or due
  if ms >= FAR_END_MS then
    return nil
  end
  local start = ms - ms % width
  if start - now <= horizon then
    return nil
  end
  local expires = argv[at + EXPIRES_MS] ~= '' and tonumber(argv[at + EXPIRES_MS])
  return not (expires and expires < start + width) and start or nil, due
end

local function put_far(at, id, start, due, how)
  local group, part = by_key and argv[at + GROUP] or '', argv[at + PARTITION]
  local beginning, offset = part ~= '0' and how == HOW_UNNAMED and ingest_parts[part].name, argv[at + OFFSET]
  beginning = beginning and string.match(beginning, '^[^*+]*')
  if how ~= HOW_UNNAMED then
    is_far[id] = true
  elseif beginning and #id ~= #beginning + 1 + #offset then
    beginning = nil -- its id is not formed from the record
  end
  local arrival = group ~= '' and order().arrival()
  far().put(start, id, due, of_queue, argv[at + RECORD], how ~= HOW_UNNAMED, beginning, offset,
                 group ~= '' and group, arrival, argv[at + EXPIRES_MS])
end

local ids, asks = {}, false
for id_at = first_row, #argv, FIELDS do
  ids[#ids + 1] = argv[id_at]
  asks = asks or argv[id_at + HOW] ~= HOW_UNNAMED
end
if slot >= 0 and asks then
  for i, place in ipairs(redis.call('HMGET', base .. ':where', unpack(ids))) do
    is_far[ids[i]] = place and true or nil
  end
end
local there = redis.call('HMGET', pool, unpack(ids))
local owner = owners and redis.call('HMGET', owners, unpack(ids))
local till = remembers and redis.call('ZMSCORE', base .. ':seen', unpack(ids)) or {}

local STORES = { [STORED] = true, [REPLACED] = true, [OVERTOOK] = true, [OUTLIVED] = true }

-- Returns whether the job of a repeated change is stored.
local function is_it(id, record, how)
  return is_far[id] and how ~= HOW_UNNAMED and select(2, far().find(id)) == record
end

local codes, index, stored = {}, {}, 0
local at = first_row
for i, id in ipairs(ids) do
  local how, again, name = read_how(argv[at + HOW])
  local mine = false
  if name then
    name = wake_text .. ' ' .. name
  elseif again then
    mine = not index[id] and (there[i] == argv[at + RECORD] or is_it(id, argv[at + RECORD], how))
  end
  local start, due
  if near then
    start, due = slot_of(at, how)
  end
  local code, instead = name and late().find(name, STORED .. REPLACED .. OVERTOOK .. OUTLIVED), nil
  if code then
    code, instead = EXISTS, code
  elseif argv[at + PARTITION] ~= '0' then
    code = ingest_refuses(argv[at + PARTITION], argv[at + OFFSET], argv[at + FIELDS - 1])
    if start and how == HOW_UNNAMED then -- no index contains its id, but it can't have left yet
      code = code or ingest_rewound and ingest_had(argv[at + PARTITION], argv[at + OFFSET]) and READ_BEFORE or nil
      mine = mine or (again and code == READ_BEFORE and not index[id])
    end
  end
  if mine then
    code, instead, index[id] = EXISTS, STORED, true
  elseif code then
    instead = instead or code
  elseif there[i] or index[id] or (is_far[id] and how ~= HOW_UNNAMED) then
    flush() -- it may concern a job of this call
    code = replace(id, how, argv[at + RECORD])
  elseif till[i] and (how == '' or how == HOW_UNNAMED or how == HOW_BACK) and tonumber(till[i]) > now then
    code = REMEMBERED
  else
    code = STORED
  end
  if STORES[code] then
    stored = stored + 1
    index[id] = not start or how ~= HOW_UNNAMED or index[id]
    if owners then
      if owner[i] and owner[i] ~= base and leave(id, owner[i], 'replaced') > 0 then
        code = REPLACED
      end
      write(owners, id, base)
    end
    if name then
      late().add(name, code)
    end
    if till[i] and how == HOW_REPLACE then
      redis.call('ZREM', base .. ':seen', id) -- forget the delivered job of this id
    end
    if start then
      put_far(at, id, start, due, how)
    else
      put(i, id, at, how, code)
    end
  end
  codes[i] = instead or code
  at = at + FIELDS
end
flush()
ingest_note(ingest, of_queue)
sums_add('stored', stored)
if of_queue and stored > 0 and redis.call('HLEN', pool) + (far_made and far().count() or 0) == stored then
  redis.call('PERSIST', base .. ':sums')
end
write_notes_for_replicas(of_queue)

-- Wakes other instances for an earlier head or an earlier slot, which they may have to move before their next look.
local head, first = first_score(delay), far_made and far().first() or slot
if (head >= 0 and (was < 0 or head < was)) or (first >= 0 and (slot < 0 or first < slot)) then
  redis.pcall('PUBLISH', wake_channel, wake_text) -- may be denied: other instances then notice later
end
return { head, table.concat(codes), first }
