-- SPDX-License-Identifier: BSD-2-Clause
-- ack.lua - forgets delivered jobs of one bucket.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--   KEYS[5]  hash  :tries   job id -> attempts and last error
--   and  zset  :seen   id of a delivered job, scored by the end of its remembrance in ms
--        hash  :sums   lib/sums.lua
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  how long their ids are remembered in ms; 0: not
--   then three per job: id, lease (the token of the claim), '' or 'l' it lapsed: nobody got it,
--            so it is not remembered; 'A' and 'L': the same, sent before, and its answer was lost
--
-- A job that was delivered may be acked also after its lease has ended: it then stands in
-- :delay again, or with another instance, and need not be sent once more. lua/reap.lua has
-- noted that lease. Any other is one of an earlier job of that id, and says nothing of this
-- one: the first was acked before, by a call whose answer was lost, or it was replaced.
-- Returns one letter per job:   a forgotten   x not there, or no lease of it   y the same, and not
--   because of this very word: it was x before, or another's word has ended the job (lib/told.lua)
--   or {head, letters} where a job has come from :held: the first due time of KEYS[2].
-- A second run answers x where the first did a, else y. Cost: O(k log n) for k jobs. Called by store_ack() in
-- bridge/store/store_call.c.
local pool, delay, unack, dead, tries = unpack(KEYS)
local base = string.sub(pool, 1, -6) -- without ":pool"
local ids = {}
for at = 3, #ARGV, 3 do
  ids[#ids + 1] = ARGV[at]
end

local told
local function words() -- made when they are needed, since this takes as long as to ack a job
  if told then
    return told
  end
  local now = tonumber(ARGV[1])
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
--#include lib/told.lua
  told = { stale = told_stale, outdate = told_outdate, note = told_note, now = now }
  return told
end

local leases = redis.call('ZMSCORE', unack, unpack(ids))
local function is_lapsed(i)
  local how = ARGV[3 * i + 2]
  return how == 'l' or how == 'L'
end

local codes, strayed = {}, false
for i, id in ipairs(ids) do
  local lease, lapsed = ARGV[3 * i + 1], is_lapsed(i)
  local mine = leases[i] and tonumber(leases[i]) == tonumber(lease)
  local ended = not mine and not lapsed and redis.call('HGET', base .. ':ended', id)
  codes[i] = 'x'
  if mine or (ended and string.find(' ' .. ended .. ' ', ' ' .. lease .. ' ', 1, true)) then
    codes[i] = 'a'
    strayed = strayed or not mine
  end
end
if strayed then -- two leases of one job may be in one call: it is acked once
  local taken = {}
  for i, id in ipairs(ids) do
    if codes[i] == 'a' and taken[id] then
      codes[i] = 'x'
    end
    taken[id] = taken[id] or codes[i] == 'a'
  end
end
local gone, by, delivered = {}, {}, {}
for i, id in ipairs(ids) do
  if codes[i] == 'a' then
    gone[#gone + 1] = id
    by[#gone] = i
    if not is_lapsed(i) then
      delivered[#delivered + 1] = id
    end
  end
end
if #gone > 0 then
  redis.call('ZREM', unack, unpack(gone))
  if strayed then
    redis.call('ZREM', delay, unpack(gone))
    redis.call('ZREM', dead, unpack(gone))
  end
  if redis.call('HDEL', tries, unpack(gone)) > 0 then
    for k, ended in ipairs(redis.call('HMGET', base .. ':ended', unpack(gone))) do
      words().outdate(gone[k], ARGV[3 * by[k] + 1], words().now, ended, leases[by[k]])
    end
    redis.call('HDEL', base .. ':ended', unpack(gone))
  end
  local left = redis.call('HDEL', pool, unpack(gone))
  local lapsed = math.min(left, #gone - #delivered)
  if left > lapsed then
    redis.call('HINCRBY', base .. ':sums', 'delivered', left - lapsed)
  end
  if lapsed > 0 then
    redis.call('HINCRBY', base .. ':sums', 'expired', lapsed)
  end
  -- Twice as many as come are pruned, so it never grows for long; and when none come any more
  -- the key itself ends.
  if tonumber(ARGV[2]) > 0 and #delivered > 0 then
    local seen, now = base .. ':seen', tonumber(ARGV[1])
    if not now then
      local t = redis.call('TIME')
      now = t[1] * 1000 + math.floor(t[2] / 1000)
    end
    local over = redis.call('ZRANGEBYSCORE', seen, '-inf', now, 'LIMIT', 0, 2 * #delivered)
    for from = 1, #over, 1000 do
      redis.call('ZREM', seen, unpack(over, from, math.min(from + 999, #over)))
    end
    local rows = {}
    for _, id in ipairs(delivered) do
      rows[#rows + 1] = now + ARGV[2]
      rows[#rows + 1] = id
    end
    for from = 1, #rows, 1000 do
      redis.call('ZADD', seen, unpack(rows, from, math.min(from + 999, #rows)))
    end
    redis.call('PEXPIRE', seen, ARGV[2] + 1000)
  end
end
for i = 1, #gone < #ids and #ids or 0 do
  if codes[i] == 'x' then
    local again = string.find(ARGV[3 * i + 2], '%u')
    codes[i] = words().stale(base, ids[i], ARGV[3 * i + 1], '', words().now, again)
  end
end
if told then
  told.note(base)
end
-- A word about a job that is gone may be what its group waits for.
local ordered = #gone > 0 and redis.call('EXISTS', base .. ':place') == 1
if ordered or (#gone < #ids and redis.call('EXISTS', base .. ':away') == 1) then
--#include lib/order.lua
  for i, id in ipairs(ids) do
    if codes[i] == 'a' then
      local mine = leases[i] and tonumber(leases[i]) == tonumber(ARGV[3 * i + 1])
      order_left(id, false, not mine and leases[i])
    end
  end
  if strayed then -- one that was held may have come to the front meanwhile
    redis.call('ZREM', delay, unpack(gone))
  end
  for i, id in ipairs(ids) do
    if codes[i] == 'x' or codes[i] == 'y' then
      order_returned(id, ARGV[3 * i + 1])
    end
  end
  return order_reply(codes)
end
return table.concat(codes)
