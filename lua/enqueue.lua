-- SPDX-License-Identifier: BSD-2-Clause
-- enqueue.lua - stores a batch of jobs in one bucket, each id once, each Kafka record once.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  zset  :error   job id, scored by time of burial in ms
--   KEYS[4]  hash  :tries   job id -> attempts and last error (bridge/tries.h)
--   KEYS[5]  hash  :ingest  topic/partition -> last offset stored here
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  channel to wake other instances on
--   ARGV[3]  name of the bucket, the text of the wake
--   ARGV[4]  how many partitions P follow, three arguments each:
--            name, offset sent before this batch ('' none known), last offset of this batch
--   then seven arguments per job: id, due in ms, encoded job, tries ('' or the value to keep),
--            '1' when it is a dead letter, index of its partition (0: none), its offset
--
-- Returns {head, codes}: due time of the first job in KEYS[2] or -1; one letter per job:
--   s stored   d an id that is there already   k record stored by an earlier batch
--   g refused: the batch before this one is missing
-- Repeatable: a second run answers d or k and changes nothing.
-- Holds before and after: an id of :pool stands in exactly one of :delay, :unack, :error.
-- Cost: O(k log n) for k jobs. Called by store_enqueue() in bridge/store.c.
local pool, delay, dead, tries, ingest = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local parts, at = {}, 5
for i = 1, tonumber(ARGV[4]) do
  local name, before, last = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local have = tonumber(redis.call('HGET', ingest, name) or -1)
  parts[i] = { name = name, have = have, last = last, gap = before and have < before }
  at = at + 3
end

local codes = {}
while at <= #ARGV do
  local id, part = ARGV[at], parts[tonumber(ARGV[at + 5])]
  local code
  if part and part.gap then
    code = 'g'
  elseif part and tonumber(ARGV[at + 6]) <= part.have then
    code = 'k'
  elseif redis.call('HSETNX', pool, id, ARGV[at + 2]) == 0 then
    code = 'd'
  else
    code = 's'
    if ARGV[at + 4] == '1' then
      redis.call('ZADD', dead, now, id)
    else
      redis.call('ZADD', delay, ARGV[at + 1], id)
    end
    if ARGV[at + 3] ~= '' then
      redis.call('HSET', tries, id, ARGV[at + 3])
    end
  end
  codes[#codes + 1] = code
  at = at + 7
end

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
