-- SPDX-License-Identifier: BSD-2-Clause
-- dead.lua - looks through the dead letters of one bucket, the oldest first; brings those that
-- match back, or deletes them.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  zset  :error   job id, scored by time of burial in ms
--   KEYS[4]  hash  :tries   job id -> attempts, reason and last error (bridge/job/tries.h)
--            and the keys of lib/order.lua
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  'l' list, 'r' replay, 'd' drop
--   ARGV[3]  '1': only say what would be done
--   ARGV[4]  id: '1' ARGV[5] is a whole id, '' it is the beginning of one
--   ARGV[6]  reason, or '' any
--   ARGV[7]  buried not before this, ms   ARGV[8]  nor after this, ms; '' now
--   ARGV[9]  go on behind the letter of this score, ms, ARGV[10] and this id; '' the beginning
--   ARGV[11] how many that match at most   ARGV[12] how many to look at, at most 500
--   ARGV[13] how often one may be replayed
--   ARGV[14] replay: so many us between one due time and the next; 0: all at once
--   ARGV[15] replay: the first is due then, us; '' or earlier than now: now
--   ARGV[16] channel to wake other instances on   ARGV[17] the text of the wake
--   ARGV[18] list: bytes of records at most (the first comes whatever its size)
--
-- Returns {now, head, end, more, score, id, looked, done, refused, next}, then six per letter
--   that matches: its id, time of burial, tries, record ('' unless it is listed), due time of a
--   replayed one or -1, 1 where it may not be replayed or 0.
--   end: ARGV[8], or now: with it the next call sees what this one would have seen, and none
--   that was buried meanwhile, perhaps again. more: 1, there are further ones behind score, id.
--   next: ARGV[15] for the next call.
-- A replayed job begins anew: its tries keep nothing but the number of its replays.
-- Finds its place by rank, so a cursor is good even when its letter is gone.
-- Cost: O(k log n) for k letters looked at. Called by store_dead() in bridge/store/store_dead.c.
local pool, delay, dead, tries = unpack(KEYS)
--#include lib/sums.lua
--#include lib/told.lua
--#include lib/order.lua
local now_us = tonumber(ARGV[1]) and ARGV[1] * 1000
if not now_us then
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end
local now = math.floor(now_us / 1000)
local what, dry = ARGV[2], ARGV[3] == '1'
local upto = math.min(tonumber(ARGV[8]) or now, now)
local LOOK_MAX = 500
local look = math.min(tonumber(ARGV[12]), LOOK_MAX)

--#include lib/rank.lua

-- The rank of the first letter to look at.
local function start()
  local first = redis.call('ZCOUNT', dead, '-inf', '(' .. ARGV[7])
  return ARGV[9] == '' and first or math.max(first, rank_behind(dead, ARGV[9], ARGV[10]))
end

-- The letters to look at, and one more: {id, score, id, score, ...}.
local function candidates()
  if ARGV[4] ~= '1' then
    local rank = start()
    return redis.call('ZRANGE', dead, rank, rank + look, 'WITHSCORES')
  end
  local score = redis.call('ZSCORE', dead, ARGV[5])
  return score and tonumber(score) >= tonumber(ARGV[7]) and { ARGV[5], score } or {}
end

local function tried(ids)
  return #ids > 0 and redis.call('HMGET', tries, unpack(ids)) or {}
end

local found, ids = candidates(), {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) <= upto then
    ids[#ids + 1] = found[i]
  end
end
local notes = tried(ids)

local function matches(i)
  local reason = string.match(notes[i] or '', '^%d+|([^|]*)|') or ''
  return (ARGV[6] == '' or ARGV[6] == reason) and string.sub(ids[i], 1, #ARGV[5]) == ARGV[5]
end

local step, next_us = tonumber(ARGV[14]), math.max(tonumber(ARGV[15]) or 0, now_us)
local done, refused = 0, 0

-- Gives its due time in ms, or nil: it stays, since it was replayed too often, or nobody
-- knows where it was to go.
local function replay(i)
  local replays = string.match(notes[i] or '', '^%d+|[^|]*|%d+/%d*/(%d+)|') or 0
  local lost = string.find(notes[i] or '', '^%d+|no%-route|')
  if lost or tonumber(replays) >= tonumber(ARGV[13]) then
    refused = refused + 1
    return nil
  end
  local due = math.ceil(next_us / 1000)
  next_us = next_us + step
  done = done + 1
  if not dry then
    redis.call('ZREM', dead, ids[i])
    redis.call('HSET', tries, ids[i], string.format('0||0/0/%d|0|0|', replays + 1))
    order_place(ids[i], due)
  end
  return due
end

local function drop(i)
  done = done + 1
  if not dry then
    redis.call('ZREM', dead, ids[i])
    told_outdate(ids[i], '', now, redis.call('HGET', base .. ':ended', ids[i]))
    sums_add('dropped', select(2, order_gone(ids[i])))
  end
end

local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local HEAD = 10 -- fields of the reply before the letters
local out, count, bytes, at = {}, 0, 0, 0
while at < math.min(#ids, look) and count < tonumber(ARGV[11]) do
  local i = at + 1
  if matches(i) then
    local record = what == 'l' and redis.call('HGET', pool, ids[i]) or ''
    bytes = bytes + #record
    if count > 0 and bytes > tonumber(ARGV[18]) then
      break
    end
    local due
    if what == 'r' then
      due = replay(i)
    elseif what == 'd' then
      drop(i)
    end
    for k, field in ipairs({ ids[i], tonumber(found[2 * i]), notes[i] or '', record, due or -1,
                             what == 'r' and not due and 1 or 0 }) do
      out[HEAD + 6 * count + k] = field
    end
    count = count + 1
  end
  at = i
end

told_note(base)
sums_note(base)
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
if head and (not was or tonumber(head) < tonumber(was)) then
  redis.pcall('PUBLISH', ARGV[16], ARGV[17]) -- may be denied: others then look a little later
end
local reply = { now, tonumber(head or -1), upto, at < #ids and 1 or 0, tonumber(found[2 * at] or 0),
                ids[at] or '', at, done, refused, next_us }
for k = 1, HEAD do
  out[k] = reply[k]
end
return out
