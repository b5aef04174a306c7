-- SPDX-License-Identifier: BSD-2-Clause
-- enqueue.lua - stores a batch of jobs in one bucket, each id once, each Kafka record once.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time: in ms, of a queue in us
--   KEYS[3]  zset  :error   job id, scored by time of burial in ms
--   KEYS[4]  hash  :tries   job id -> attempts and last error (bridge/job/tries.h)
--   KEYS[5]  hash  :ingest  see lib/ingest.lua
--   KEYS[6]  zset  :unack   KEYS[7]  zset  :ttl   KEYS[8]  zset  :done: a queue's, see
--            lib/queue.lua; empty in other buckets
--   KEYS[9]  hash  :ids     job id -> the keys of its queue, where an id names one job in all
--            queues of a sink: only the last of that id stays; not given else
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  channel to wake other instances on
--   ARGV[3]  name of the bucket, the text of the wake
--   ARGV[4]  'q' the bucket of a queue, '' of a route, 'k' of a route that keeps the order of
--            keys: then a ninth argument per job is its group, '' none
--   ARGV[5]  '1' ids of delivered jobs are remembered (ack.lua), '' they are not
--   ARGV[6]  horizon in ms: jobs that are due later wait as lib/far.lua has it; '' or 0: none do
--   ARGV[7]  partitions, see lib/ingest.lua
--   then eight arguments per job: id, due as in KEYS[2] ('' now, of a queue: behind all that are
--            due), encoded job,
--            tries ('' or the value to keep), index of its partition (0: none), its offset,
--            'd' a dead letter (due: time of burial, ms) or 'f' in flight (due: end of the lease) or
--            'r' it replaces a job of that id wherever that stands (and behind it may stand the
--            number of this change, with ARGV[3] its name: see lib/told.lua) or
--            'b' only where that is in flight: it was delivered before, and is back or
--            'u' a Kafka record whose id is its partition, a slash and its offset: nobody else
--            knows it or '',
--            (in capitals, of '' A: it was sent before, and its answer was lost),
--            when it expires in ms ('' never); and where ARGV[7] > 0, at the end, its timestamp
--
-- Returns {head, codes, slot}: due time of the first job in KEYS[2] or -1; one letter per job;
--   start of the first slot of lib/far.lua in ms or -1. The letters:
--   s stored   d an id that is there already   k record stored by an earlier batch
--   g refused: the batch before this one is missing
--   r stored; one of that id that waited, or was dead, is gone
--   and of a queue: t stored; one of that id whose time was over is gone
--   and of a route: m an id that is remembered: it was delivered
--   v nothing was done: the replacement is the very job in flight, and has come again
--   i stored; one of that id in flight does not count any more: it is neither tried again nor
--     acked, but its group waits for it (lib/order.lua). Also without 'r' where that one was cancelled, so is on its way out
-- Repeatable: a second run answers d or k, or s where it is told to be one and the job is there as
-- it was stored; a replacement that has a number as it did at first;
-- one without may answer r, and changes nothing but the tries of the job.
-- Holds before and after: an id of :pool stands in exactly one of :delay, :unack, :error, :held.
-- Cost: O(k log n) for k jobs. Called by store_enqueue() in bridge/store/store_call.c.
--#include lib/ingest.lua
local pool, delay, dead, tries, ingest, unack, ttl, done, owners = unpack(KEYS)
local now_us = tonumber(ARGV[1]) and ARGV[1] * 1000
if not now_us then
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end
local now = math.floor(now_us / 1000)

local argv = ARGV -- a local one is found sooner
local base = string.sub(pool, 1, -6) -- without ":pool"
if owners == base .. ':whole' then
  owners = nil
end
local of_queue, remembers, by_key = ARGV[4] == 'q', ARGV[5] == '1', ARGV[4] == 'k'

local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local at, stamped = ingest_read(ingest, 7)
local FIELDS = (by_key and 9 or 8) + stamped
local slot = tonumber(redis.call('ZRANGE', base .. ':far', 0, 0)[1] or -1)

-- To make these functions takes as long as to store a job: they are made when they are needed.
local order
local function in_order()
  if order then
    return order
  end
--#include lib/order.lua
  order = { place = order_place, note = order_note, gone = order_gone, cancelled = order_cancelled,
            arrival = order_arrival }
  return order
end

local far
local function far_jobs()
  if far then
    return far
  end
--#include lib/far.lua
  far = { put = far_put, find = far_find, take = far_take, first = far_first, flush = far_flush,
          count = far_count }
  return far
end

-- Jobs that have gone: keys of their bucket -> kind, see lib/sums.lua -> how many.
local left = {}
local function count_left(keys, kind, n)
  left[keys] = left[keys] or { replaced = 0, expired = 0 }
  left[keys][kind] = left[keys][kind] + n
end

local function note_sums(stored)
  if stored > 0 then
    redis.call('HINCRBY', base .. ':sums', 'stored', stored)
    if of_queue and redis.call('HLEN', pool) + (far and far.count(base) or 0) == stored then
      redis.call('PERSIST', base .. ':sums')
    end
  end
  for keys, kinds in pairs(left) do
--#include lib/sums.lua
    for kind, n in pairs(kinds) do
      sums_add(kind, n)
    end
    sums_note(keys, of_queue)
  end
end

local told -- made when it is needed, as order
local function answers()
  if told then
    return told
  end
--#include lib/told.lua
  told = { find = told_find, add = told_add, note = told_note, outdate = told_outdate }
  return told
end

-- A job of this bucket goes: who had it, or has it, may have said so, unheard.
local function outdate(id, held)
  local ended = redis.call('HGET', base .. ':ended', id)
  if ended or held then
    answers().outdate(id, '', now, ended, held)
  end
end

-- A job of a queue goes, wherever it stands; one that has ended was counted then. Gives how many
-- are counted now.
local function leave(id, keys, kind)
  if keys == base then
    outdate(id, redis.call('ZSCORE', unack, id))
  end
  local ended = redis.call('ZREM', keys .. ':done', id)
  for _, part in ipairs({ ':delay', ':unack', ':error', ':ttl' }) do
    redis.call('ZREM', keys .. part, id)
  end
  redis.call('HDEL', keys .. ':tries', id)
  redis.call('HDEL', keys .. ':ended', id)
  local waited = redis.call('EXISTS', keys .. ':far') == 1 and far_jobs().take(keys, id) or 0
  local n = redis.call('HDEL', keys .. ':pool', id) - ended + waited
  count_left(keys, kind, n)
  return n
end

local is_far = {} -- ids of far jobs, as this call leaves them

-- Makes room for a job whose id is used, and gives the letter for it.
local function replace(id, how, record)
  if is_far[id] then
    if how ~= 'r' then
      return 'd'
    end
    is_far[id] = nil
    count_left(base, 'replaced', far_jobs().take(base, id))
    return 'r'
  elseif of_queue then
    local over = tonumber(redis.call('ZSCORE', ttl, id) or nil)
    over = over and over <= now
    if how ~= 'r' and not over and not redis.call('ZSCORE', done, id) then
      return 'd'
    end
    return leave(id, base, over and 'expired' or 'replaced') == 0 and 's' or over and 't' or 'r'
  end
  local flies = redis.call('ZSCORE', unack, id)
  local cancelled = flies and in_order().cancelled(redis.call('HGET', tries, id))
  if how ~= 'r' and not cancelled and not (how == 'b' and flies) then
    return 'd'
  elseif flies and not cancelled and redis.call('HGET', pool, id) == record then
    return 'v'
  end
  for _, key in ipairs({ delay, unack, dead }) do
    redis.call('ZREM', key, id)
  end
  outdate(id, flies)
  count_left(base, 'replaced', select(2, in_order().gone(id, flies)))
  return flies and 'i' or 'r'
end

-- Writes are collected, one command per key. The pool comes first: when Redis is out of
-- memory it refuses the first write, and then nothing is stored.
local sequence = { dead, unack, ttl, tries, owners }
local command = { [dead] = 'ZADD', [unack] = 'ZADD', [ttl] = 'ZADD', [tries] = 'HSET' }
if owners then
  command[owners] = 'HSET'
end
local pending, placed = {}, {}
local bodies, body_n, dues, due_n = {}, 0, {}, 0 -- of the pool and of :delay
local function write(key, a, b)
  local list = pending[key]
  if not list then
    list = {}
    pending[key] = list
  end
  list[#list + 1] = a
  list[#list + 1] = b
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
  for _, key in ipairs(sequence) do
    if pending[key] then
      redis.call(command[key], key, unpack(pending[key]))
    end
  end
  pending = {}
  if far then
    far.flush(base)
  end
  for _, job in ipairs(placed) do
    local place = job.dead and in_order().note or in_order().place
    place(job.id, job.due, job.group, job.arrival)
  end
  placed = {}
end

-- Puts a job where how says; i: its number in the call. One that takes the place of a job in
-- flight is due a ms later at least: no claim of it may have the token of that one's.
local function put(i, id, at, how, code)
  local due, group = argv[at + 1], by_key and argv[at + 8]
  bodies[body_n + 1], bodies[body_n + 2] = id, argv[at + 2]
  body_n = body_n + 2
  if argv[at + 3] ~= '' then
    write(tries, id, argv[at + 3])
  end
  if argv[at + 7] ~= '' and how ~= 'd' then
    write(ttl, argv[at + 7], id)
  end
  if due == '' then
    due = (of_queue and how ~= 'd' and how ~= 'f') and now_us + i - 1 or now
  end
  if code == 'i' then
    due = math.max(tonumber(due), now + 1)
  end
  if group and group ~= '' and how ~= 'f' then
    placed[#placed + 1] = { id = id, due = due, group = group, dead = how == 'd', arrival = in_order().arrival() }
    if how ~= 'd' then
      return
    end
  end
  if how == 'd' or how == 'f' then
    write(how == 'd' and dead or unack, due, id)
    return
  end
  dues[due_n + 1], dues[due_n + 2] = due, id
  due_n = due_n + 2
end

local FAR_HOW = { [''] = true, u = true, r = true, b = true }
local FAR_RECORD_BYTES, FAR_ID_BYTES, FAR_WIDTH = 4096, 255, 60000 -- at most
local FAR_END_MS = 1e14 -- before it: later ones Lua writes with an exponent
local horizon = tonumber(ARGV[6]) or 0
local width = math.min(FAR_WIDTH, math.max(1000, math.floor(horizon / 2)))

-- What is due then, or before, is near: most jobs are told by that, as texts, since a number takes
-- longer to make. Where keys keep their order a job is not near as long as there is a slot for its
-- time, of whatever width: of those due at one time the first that came leaves first.
local near = horizon > 0 and now + horizon or math.huge
if by_key and slot >= 0 then
  near = math.min(near, slot - 1)
end
near = near < math.huge and string.format('%.0f', of_queue and near * 1000 or near)

-- The slot for a job whose arguments begin there, or nil: it is near; and when it is due.
local function slot_of(at, how)
  local text = argv[at + 1]
  if #text < #near or (#text == #near and text <= near) or not FAR_HOW[how] or argv[at + 3] ~= '' or
    #argv[at + 2] > FAR_RECORD_BYTES or #argv[at] > FAR_ID_BYTES then
    return nil
  end
  local due = tonumber(text)
  local ms = of_queue and math.floor(due / 1000) or due
  if ms >= FAR_END_MS then
    return nil
  end
  local start = ms - ms % width
  if horizon == 0 or start - now <= horizon then
    local there = by_key and redis.call('ZREVRANGEBYSCORE', base .. ':far', ms, ms - FAR_WIDTH + 1, 'LIMIT', 0, 1)[1]
    return tonumber(there or nil), due
  end
  local expires = argv[at + 7] ~= '' and tonumber(argv[at + 7])
  return not (expires and expires < start + width) and start or nil, due
end

local function put_far(at, id, start, due, how)
  local group, part = by_key and argv[at + 8] or '', argv[at + 4]
  local beginning, offset = part ~= '0' and how == 'u' and argv[6 + 2 * part], argv[at + 5]
  beginning = beginning and string.match(beginning, '^[^*+]*')
  if how ~= 'u' then
    is_far[id] = true
  elseif beginning and #id ~= #beginning + 1 + #offset then
    beginning = nil -- it is named otherwise
  end
  local arrival = group ~= '' and in_order().arrival()
  far_jobs().put(base, start, id, due, of_queue, argv[at + 2], how ~= 'u', beginning, offset,
                 group ~= '' and group, arrival, argv[at + 7])
end

local ids, asks = {}, false
for id_at = at, #argv, FIELDS do
  ids[#ids + 1] = argv[id_at]
  asks = asks or argv[id_at + 6] ~= 'u'
end
if slot >= 0 and asks then
  for i, place in ipairs(redis.call('HMGET', base .. ':where', unpack(ids))) do
    is_far[ids[i]] = place and true or nil
  end
end
local there = redis.call('HMGET', pool, unpack(ids))
local owner = owners and redis.call('HMGET', owners, unpack(ids))
local till = remembers and redis.call('ZMSCORE', base .. ':seen', unpack(ids)) or {}

local STORES = { s = true, r = true, i = true, t = true }

-- A job that is sent again is here.
local function is_it(id, record, how)
  return is_far[id] and how ~= 'u' and select(2, far_jobs().find(base, id)) == record
end

local AGAIN = { A = '', B = 'b', D = 'd', F = 'f', R = 'r', U = 'u' }
local codes, index, stored = {}, {}, 0
for i, id in ipairs(ids) do
  local how, name, mine = argv[at + 6], nil, false
  local again = AGAIN[how]
  if again then
    how = again
    mine = not index[id] and (there[i] == argv[at + 2] or is_it(id, argv[at + 2], how))
  elseif #how > 1 then
    name = argv[3] .. ' ' .. string.sub(how, 2)
    how = string.sub(how, 1, 1)
  end
  local code, instead = name and answers().find(base, name, 'srit'), nil
  if code then
    code, instead = 'd', code
  else
    if argv[at + 4] ~= '0' then
      code = ingest_refuses(argv[at + 4], argv[at + 5], argv[at + FIELDS - 1])
      if ingest_rewound and not code and how == 'u' and near and ingest_had(argv[at + 4], argv[at + 5]) and
        slot_of(at, how) then
        code = 'k' -- nobody has an index of it, but it can't have left yet
      end
    end
    if code == 'k' and again and how == 'u' and near and slot_of(at, how) then
      mine = not index[id] -- nobody has an index of it, but it can't have left yet
    end
  end
  if mine then
    code, instead, index[id] = 'd', 's', true
  elseif code then
    instead = instead or code
  elseif there[i] or index[id] or (is_far[id] and how ~= 'u') then
    flush() -- it may be about a job of this very call
    code = replace(id, how, argv[at + 2])
  elseif till[i] and (how == '' or how == 'u' or how == 'b') and tonumber(till[i]) > now then
    code = 'm'
  else
    code = 's'
  end
  if STORES[code] then
    local start, due
    if near then
      start, due = slot_of(at, how)
    end
    stored = stored + 1
    index[id] = not start or how ~= 'u' or index[id]
    if owners then
      if owner[i] and owner[i] ~= base and leave(id, owner[i], 'replaced') > 0 then
        code = 'r'
      end
      write(owners, id, base)
    end
    if name then
      answers().add(name, code, now)
    end
    if till[i] and how == 'r' then
      redis.call('ZREM', base .. ':seen', id) -- it is a new one
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
note_sums(stored)
if told then
  told.note(base)
end

-- Others hear of an earlier head, and of an earlier slot: it may have to be moved before they look
-- again.
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local first = far and far.first(base) or slot
if (head and (not was or tonumber(head) < tonumber(was))) or (first >= 0 and (slot < 0 or first < slot)) then
  redis.pcall('PUBLISH', argv[2], argv[3]) -- may be denied: others then look a little later
end
return { tonumber(head or -1), table.concat(codes), first }
