-- SPDX-License-Identifier: BSD-2-Clause
-- enqueue.lua - stores a batch of jobs in one bucket, each id once, each Kafka record once.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time: in ms, of a queue in us
--   KEYS[3]  zset  :error   job id, scored by time of burial in ms
--   KEYS[4]  hash  :tries   job id -> attempts and last error (bridge/tries.h)
--   KEYS[5]  hash  :ingest  topic/partition -> last offset stored here
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
--   ARGV[6]  partitions, see lib/ingest.lua
--   then eight arguments per job: id, due as in KEYS[2] ('' now, of a queue: behind all that are
--            due), encoded job,
--            tries ('' or the value to keep), index of its partition (0: none), its offset,
--            'd' a dead letter (due: time of burial, ms) or 'f' in flight (due: end of the lease) or
--            'r' it replaces a job of that id wherever that stands or
--            'b' only where that is in flight: it was delivered before, and is back or '',
--            when it expires in ms ('' never)
--
-- Returns {head, codes}: due time of the first job in KEYS[2] or -1; one letter per job:
--   s stored   d an id that is there already   k record stored by an earlier batch
--   g refused: the batch before this one is missing
--   and of a route: m an id that is remembered: it was delivered
--   r stored; one of that id that waited, or was dead, is gone
--   i stored; one of that id in flight does not count any more: it is neither tried again nor
--     acked. Also without 'r' where that one was cancelled, so is on its way out
-- A replacement that is the very job in flight changes nothing: it has come again.
-- Repeatable: a second run answers d, k or r, and changes nothing but the tries of a job that
-- replaces.
-- Holds before and after: an id of :pool stands in exactly one of :delay, :unack, :error, :held.
-- Cost: O(k log n) for k jobs. Called by store_enqueue() in bridge/store_call.c.
--#include lib/ingest.lua
local pool, delay, dead, tries, ingest, unack, ttl, done, owners = unpack(KEYS)
local now_us = tonumber(ARGV[1]) and ARGV[1] * 1000
if not now_us then
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end
local now = math.floor(now_us / 1000)

local base = string.sub(pool, 1, -6) -- without ":pool"
if owners == base .. ':whole' then
  owners = nil
end
local of_queue, remembers, FIELDS = ARGV[4] == 'q', ARGV[5] == '1', ARGV[4] == 'k' and 9 or 8

local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local at = ingest_read(ingest, 6)

-- To make these functions takes as long as to store a job: they are made when they are needed.
local order
local function in_order()
--#include lib/order.lua
  order = order or { place = order_place, note = order_note, gone = order_gone, cancelled = order_cancelled }
  return order
end

local function leave(id, keys)
  for _, part in ipairs({ ':delay', ':unack', ':error', ':ttl', ':done' }) do
    redis.call('ZREM', keys .. part, id)
  end
  redis.call('HDEL', keys .. ':tries', id)
  redis.call('HDEL', keys .. ':pool', id)
end

-- Makes room for a job whose id is used, and gives the letter for it; a second one where that
-- is to be told instead.
local function replace(id, how, record)
  if of_queue then
    local over = redis.call('ZSCORE', ttl, id)
    if how ~= 'r' and not (over and tonumber(over) <= now) and not redis.call('ZSCORE', done, id) then
      return 'd'
    end
    leave(id, base)
    return 's'
  end
  local flies = redis.call('ZSCORE', unack, id)
  local cancelled = flies and in_order().cancelled(redis.call('HGET', tries, id))
  if how ~= 'r' and not cancelled and not (how == 'b' and flies) then
    return 'd'
  elseif flies and not cancelled and redis.call('HGET', pool, id) == record then
    return 'd', 's'
  end
  for _, key in ipairs({ delay, unack, dead }) do
    redis.call('ZREM', key, id)
  end
  in_order().gone(id)
  return flies and 'i' or 'r'
end

-- Writes are collected, one command per key. The pool comes first: when Redis is out of
-- memory it refuses the first write, and then nothing is stored.
local sequence = { pool, delay, dead, unack, ttl, tries, owners }
local command = { [pool] = 'HSET', [delay] = 'ZADD', [dead] = 'ZADD', [unack] = 'ZADD',
                  [ttl] = 'ZADD', [tries] = 'HSET' }
if owners then
  command[owners] = 'HSET'
end
local pending, placed = {}, {}
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
  for _, key in ipairs(sequence) do
    if pending[key] then
      redis.call(command[key], key, unpack(pending[key]))
    end
  end
  pending = {}
  for _, job in ipairs(placed) do
    local place = job.dead and in_order().note or in_order().place
    place(job.id, job.due, job.group)
  end
  placed = {}
end

-- Puts a job where how says; i: its number in the call. One that takes the place of a job in
-- flight is due a ms later at least: no claim of it may have the token of that one's.
local function put(i, id, due, how, code, group)
  if due == '' then
    due = (of_queue and how ~= 'd' and how ~= 'f') and now_us + i - 1 or now
  end
  if code == 'i' then
    due = math.max(tonumber(due), now + 1)
  end
  if group and group ~= '' and how ~= 'f' then
    placed[#placed + 1] = { id = id, due = due, group = group, dead = how == 'd' }
    if how ~= 'd' then
      return
    end
  end
  write(how == 'd' and dead or how == 'f' and unack or delay, due, id)
end

local ids = {}
for id_at = at, #ARGV, FIELDS do
  ids[#ids + 1] = ARGV[id_at]
end
local there = redis.call('HMGET', pool, unpack(ids))
local owner = owners and redis.call('HMGET', owners, unpack(ids))
local till = remembers and redis.call('ZMSCORE', base .. ':seen', unpack(ids)) or {}

local STORES = { s = true, r = true, i = true }
local codes, index = {}, {}
for i, id in ipairs(ids) do
  local how = ARGV[at + 6]
  local code, told = ingest_refuses(ARGV[at + 4], ARGV[at + 5])
  if code then
    told = code
  elseif there[i] or index[id] then
    flush() -- it may be about a job of this very call
    code, told = replace(id, how, ARGV[at + 2])
  elseif till[i] and (how == '' or how == 'b') and tonumber(till[i]) > now then
    code = 'm'
  else
    code = 's'
  end
  if STORES[code] then
    index[id] = true
    if owners then
      if owner[i] and owner[i] ~= base then
        leave(id, owner[i])
      end
      write(owners, id, base)
    end
    if till[i] and how == 'r' then
      redis.call('ZREM', base .. ':seen', id) -- it is a new one
    end
    write(pool, id, ARGV[at + 2])
    put(i, id, ARGV[at + 1], how, code, FIELDS == 9 and ARGV[at + 8])
    if ARGV[at + 3] ~= '' then
      write(tries, id, ARGV[at + 3])
    end
    if ARGV[at + 7] ~= '' and how ~= 'd' then
      write(ttl, ARGV[at + 7], id)
    end
  end
  codes[i] = told or code
  at = at + FIELDS
end
flush()
ingest_note(ingest)

local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
if head and (not was or tonumber(head) < tonumber(was)) then
  redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- may be denied: others then look a little later
end
return { tonumber(head or -1), table.concat(codes) }
