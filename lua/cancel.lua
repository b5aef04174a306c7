-- SPDX-License-Identifier: BSD-2-Clause
-- cancel.lua - takes jobs of one bucket out before they are delivered.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--   KEYS[5]  hash  :tries   job id -> attempts and last error
--   KEYS[6]  hash  :ingest  see lib/ingest.lua
--   KEYS[7]  zset  :ttl     KEYS[8]  hash  :ids, or not given: a queue's, see lib/queue.lua
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  '1' the bucket of a route, '' of a queue
--   ARGV[3]  who asks: with the number of a cancel its name, see lib/told.lua
--   ARGV[4]  partitions, see lib/ingest.lua
--   then four per job: id, index of the partition of the record that cancels it (0: none), its
--            offset, number of this cancel ('' none: a second run is not told from another); and
--            where ARGV[4] > 0 its timestamp
--
-- A job in flight stays: whether it has reached the other end is not known here. But one of a
-- route is marked in :tries, as cancelled: it is not tried again, and is never a dead letter.
-- Returns one letter per id:
--   c cancelled: it waited   e cancelled: it was a dead letter   f in flight
--   m not there, but remembered: it was delivered (ack.lua)   n not there
--   k, g as of lib/ingest.lua, and nothing was done
--   or {head, letters} where a job has come from :held: the first due time of KEYS[2].
-- A second run answers the same c, e or f, or n, m or k where nothing was done. Cost: O(k log n) for
-- k ids. Called by store_cancel() in bridge/store/store_call.c.
--#include lib/ingest.lua
--#include lib/sums.lua
--#include lib/told.lua
--#include lib/order.lua
local far
local function far_jobs() -- made when it is needed: to make these functions takes time
  if far then
    return far
  end
--#include lib/far.lua
  far = { take = far_take }
  return far
end

local pool, delay, unack, dead, tries, ingest, ttl, owners = unpack(KEYS)
if owners == string.sub(pool, 1, -6) .. ':whole' then
  owners = nil
end
local of_route, now = ARGV[2] == '1', tonumber(ARGV[1])

if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local has_far = redis.call('EXISTS', base .. ':far') == 1 -- lib/far.lua

local function is_remembered(id)
  local till = of_route and redis.call('ZSCORE', base .. ':seen', id)
  return till and tonumber(till) > now
end

-- Where a reason stands, or that it is paced, the mark takes its place.
local function mark(id)
  local note = redis.call('HGET', tries, id) or ''
  local marked, n = string.gsub(note, '^(%d+)|[^|]*|', '%1|cancelled|')
  redis.call('HSET', tries, id, n == 1 and marked or '0|cancelled|0/0/0|0|0|')
end

local function cancel(id)
  local code = 'n'
  if has_far and far_jobs().take(base, id) == 1 then
    sums_add('cancelled', 1)
    if owners then
      redis.call('HDEL', owners, id)
    end
    return 'c'
  elseif redis.call('ZREM', delay, id) == 1 then
    code = 'c'
  elseif redis.call('ZREM', dead, id) == 1 then
    code = 'e'
  elseif redis.call('ZSCORE', unack, id) then
    if of_route then
      mark(id)
    end
    return 'f'
  elseif not of_route or redis.call('HEXISTS', pool, id) == 0 then
    return is_remembered(id) and 'm' or 'n'
  end
  told_outdate(id, '', now, redis.call('HGET', base .. ':ended', id))
  local was_held, bodies = order_gone(id)
  sums_add('cancelled', bodies)
  redis.call('ZREM', ttl, id)
  if owners then
    redis.call('HDEL', owners, id)
  end
  return was_held and 'c' or code
end

local codes = {}
local function once(at)
  local name = ARGV[at + 3] ~= '' and ARGV[3] .. ' ' .. ARGV[at + 3] or nil
  local code = name and told_find(base, name, 'cef') or ingest_refuses(ARGV[at + 1], ARGV[at + 2], ARGV[at + 4])
  if not code then
    code = cancel(ARGV[at])
    if name and string.find('cef', code, 1, true) then
      told_add(name, code, now)
    end
  end
  return code
end

local first, stamped = ingest_read(ingest, 4)
for at = first, #ARGV, 4 + stamped do
  codes[#codes + 1] = once(at)
end
told_note(base)
ingest_note(ingest, not of_route)
sums_note(base, not of_route)
return order_reply(codes)
