-- SPDX-License-Identifier: BSD-2-Clause
-- retry.lua - puts claimed jobs of one bucket back, to be claimed again later.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[4]  zset  :error   KEYS[5]  hash  :tries   job id -> attempts and last error
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   then nine per job: id, lease (the token of the claim), next due in ms, tries ('': it has
--            none any more), encoded job of its next run, or '' to try this one again;
--            and where this run is given up, but '' else: the id under which it is kept (ID@DIGITS;
--            where that is another job's, ID@0DIGITS, and so on), its encoded job, its tries, 'd' as a dead letter or 's' due now, on its way to the
--            sink of those. Without a next run the job is gone then. In capitals, of '' A: it
--            was sent before, and its answer was lost
--
-- Only for the lease that claimed the job: a late word of an earlier claim changes nothing, and
-- a run of a job that was cancelled or replaced is not kept.
-- A job that is tried again stays in front of its group; a next run is a new job of that group
-- (lib/order.lua). ZREM comes first: see claim.lua.
-- Returns {head, codes}: due time of the first job in KEYS[2]; one letter per job:
--   r put back   k the same, and its run is kept; also where there is no next one
--   c dropped: it was cancelled meanwhile   x not this lease's any more
--   y the same, and so it was before (lua/ack.lua)
-- A second run answers x where the first did r, y where it did x, and c or k as the first. Cost: O(k log n) for k jobs. Called by store_retry(),
-- store_repeat() and store_lose() in bridge/store/store_call.c.
--#include lib/sums.lua
--#include lib/order.lua
local pool, delay, unack, dead, tries = unpack(KEYS)

-- What a rare answer needs is made when it is needed.
local told
local function answers()
  if not told then
    local now = tonumber(ARGV[1])
    if not now then
      local t = redis.call('TIME')
      now = t[1] * 1000 + math.floor(t[2] / 1000)
    end
--#include lib/told.lua
    told = { stale = told_stale, add = told_add, note = told_note, lease = told_lease, outdate = told_outdate,
             now = now }
  end
  return told
end

-- This run ends: nobody's word about it counts any more but that of the lease.
local function outdate(id, lease)
  local ended = redis.call('HGET', base .. ':ended', id)
  if ended then
    answers().outdate(id, lease, answers().now, ended)
  end
end

-- The next run, with nothing of this one.
local function run_again(id, due, record)
  redis.call('HSET', pool, id, record)
  local group = order_group(id)
  order_left(id)
  order_place(id, due, group)
end

-- The name under which a run is kept. Another job may have it, near or far (lib/far.lua): then zeros
-- are added before the digits at its end, and it stays in this bucket (bridge/engine/route_buckets.c). nil: this
-- very run is kept already.
local function free_name(kept, record)
  while true do
    local there = redis.call('HGET', pool, kept)
    if there == record then
      return nil
    elseif not there and redis.call('HEXISTS', base .. ':where', kept) == 0 then
      return kept
    end
    local named
    kept, named = string.gsub(kept, '@(%d+)$', '@0%1')
    kept = named == 1 and kept or kept .. '@0'
  end
end

local function keep_run(id, kept, record, note, how)
  local group = order_group(id)
  kept = free_name(kept, record)
  if not kept then
    return 'r'
  end
  redis.call('HSET', pool, kept, record)
  redis.call('HSET', tries, kept, note)
  if string.lower(how) == 's' then
    order_place(kept, answers().now, group)
    return 'k'
  end
  redis.call('ZADD', dead, answers().now, kept)
  if group then
    order_note(kept, answers().now, group)
  end
  return 'k'
end

local codes = {}
for at = 2, #ARGV, 9 do
  local id, due, note, record = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local kept = ARGV[at + 5]
  local lease = redis.call('ZSCORE', unack, id)
  local code = 'x'
  if lease and tonumber(lease) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', unack, id)
    if order_cancelled(redis.call('HGET', tries, id)) then
      outdate(id, ARGV[at + 1])
      sums_add('cancelled', select(2, order_gone(id)))
      code = 'c'
    else
      code = 'r'
      if kept ~= '' then
        code = keep_run(id, kept, ARGV[at + 6], ARGV[at + 7], ARGV[at + 8])
      end
      if note ~= '' then
        redis.call('HSET', tries, id, note)
      elseif redis.call('HDEL', tries, id) == 1 then
        outdate(id, ARGV[at + 1])
        redis.call('HDEL', base .. ':ended', id)
      end
      if record ~= '' then
        run_again(id, due, record)
        sums_add('repeated', 1)
        sums_add('stored', code == 'k' and 1 or 0)
      elseif kept ~= '' then -- it goes on under that name, or has before
        local _, bodies = order_gone(id)
        sums_add('dropped', bodies - (code == 'k' and 1 or 0))
      else
        redis.call('ZADD', delay, due, id)
      end
    end
    if code ~= 'r' then
      answers().add(told.lease(id, ARGV[at + 1]), code, told.now)
    end
  else
    order_returned(id, ARGV[at + 1])
    code = answers().stale(base, id, ARGV[at + 1], 'ck', told.now, string.find(ARGV[at + 8], '%u'))
  end
  codes[#codes + 1] = code
end
if told then
  told.note(base)
end
sums_note(base)
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
return { tonumber(head or -1), table.concat(codes) }
