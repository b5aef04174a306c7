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
--   ARGV[4]  how many partitions P follow, three arguments each:
--            name, offset sent before this batch ('' none known), last offset of this batch
--   then eight arguments per job: id, due as in KEYS[2] ('' now, a queue's: behind all that are
--            due), encoded job,
--            tries ('' or the value to keep), index of its partition (0: none), its offset,
--            'd' a dead letter (due: time of burial, ms) or 'f' in flight (due: end of the lease) or
--            'r' it replaces a job of that id wherever that stands or '',
--            when it expires in ms ('' never)
--
-- Returns {head, codes}: due time of the first job in KEYS[2] or -1; one letter per job:
--   s stored   d an id that is there already   k record stored by an earlier batch
--   g refused: the batch before this one is missing
-- Repeatable: a second run answers d or k and changes nothing.
-- Holds before and after: an id of :pool stands in exactly one of :delay, :unack, :error.
-- Cost: O(k log n) for k jobs. Called by store_enqueue() in bridge/store.c.
local pool, delay, dead, tries, ingest, unack, ttl, done, owners = unpack(KEYS)
local now_us = tonumber(ARGV[1]) and ARGV[1] * 1000
if not now_us then
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end
local now = math.floor(now_us / 1000)

local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local parts, at = {}, 5
for i = 1, tonumber(ARGV[4]) do
  local name, before, last = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local have = tonumber(redis.call('HGET', ingest, name) or -1)
  parts[i] = { name = name, have = have, last = last, gap = before and have < before }
  at = at + 3
end

local function leave(id, keys)
  for _, part in ipairs({ ':delay', ':unack', ':error', ':ttl', ':done' }) do
    redis.call('ZREM', keys .. part, id)
  end
  redis.call('HDEL', keys .. ':tries', id)
  redis.call('HDEL', keys .. ':pool', id)
end

-- Makes room for a job whose id is used. Says whether it may be stored.
local ours = string.sub(pool, 1, -6) -- without ":pool"
local function replaces(id, how)
  local over = redis.call('ZSCORE', ttl, id)
  if how == 'r' or (over and tonumber(over) <= now) or redis.call('ZSCORE', done, id) then
    leave(id, ours)
    return true
  end
end

-- Writes are collected, one command per key. The pool comes first: when Redis is out of
-- memory it refuses the first write, and then nothing is stored.
local order = { pool, delay, dead, unack, ttl, tries, owners }
local command = { [pool] = 'HSET', [delay] = 'ZADD', [dead] = 'ZADD', [unack] = 'ZADD',
                  [ttl] = 'ZADD', [tries] = 'HSET' }
if owners then
  command[owners] = 'HSET'
end
local pending = {}
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
  for _, key in ipairs(order) do
    if pending[key] then
      redis.call(command[key], key, unpack(pending[key]))
    end
  end
  pending = {}
end

local ids = {}
for id_at = at, #ARGV, 8 do
  ids[#ids + 1] = ARGV[id_at]
end
local there = redis.call('HMGET', pool, unpack(ids))
local owner = owners and redis.call('HMGET', owners, unpack(ids))
local codes, seen = {}, {}
for i, id in ipairs(ids) do
  local how, part = ARGV[at + 6], parts[tonumber(ARGV[at + 4])]
  local code = 's'
  if part and part.gap then
    code = 'g'
  elseif part and tonumber(ARGV[at + 5]) <= part.have then
    code = 'k'
  elseif there[i] or seen[id] then
    flush() -- it may be about a job of this very call
    code = replaces(id, how) and 's' or 'd'
  end
  if code == 's' then
    local due = ARGV[at + 1]
    seen[id] = true
    if owners then
      if owner[i] and owner[i] ~= ours then
        leave(id, owner[i])
      end
      write(owners, id, ours)
    end
    write(pool, id, ARGV[at + 2])
    if how == 'd' or how == 'f' then
      write(how == 'd' and dead or unack, due == '' and now or due, id)
    else
      write(delay, due == '' and now_us + i - 1 or due, id)
    end
    if ARGV[at + 3] ~= '' then
      write(tries, id, ARGV[at + 3])
    end
    if ARGV[at + 7] ~= '' and how ~= 'd' then
      write(ttl, ARGV[at + 7], id)
    end
  end
  codes[i] = code
  at = at + 8
end
flush()

for _, part in ipairs(parts) do
  if not part.gap and part.last > part.have then
    redis.call('HSET', ingest, part.name, part.last)
  end
end

local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
if head and (not was or tonumber(head) < tonumber(was)) then
  redis.pcall('PUBLISH', ARGV[2], ARGV[3]) -- may be denied: others then look a little later
end
return { tonumber(head or -1), table.concat(codes) }
