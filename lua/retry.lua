-- SPDX-License-Identifier: BSD-2-Clause
-- retry.lua - puts claimed jobs of one bucket back, to be claimed again later, or gives them up.
--
-- Only for the lease that claimed the job: a late outcome of an earlier claim changes nothing, and
-- a run of a job that was cancelled or replaced is not kept.
-- A job that is tried again stays in front of its group; a next run is a new job of that group
-- (lib/order.lua). A run that is given up is kept under ID@DIGITS; where that is another job's,
-- ID@0DIGITS, and so on. Without a next run the job is gone then.
-- A second run answers STALE where the first put back or buried, else as the first. Cost: O(k log n).
--#include lib/bucket.lua
--#include lib/now.lua
--#include lib/sums.lua
--#include lib/head.lua
--#include lib/late.lua
--#include lib/order.lua
-- This run ends: no other outcome of it counts any more but that of the lease.
local function outdate(id, lease)
  local ended = redis.call('HGET', base .. ':ended', id)
  if ended then
    late().outdate(id, lease, false, ended)
  end
end

-- The next run, with nothing of this one.
local function run_again(id, due, record)
  redis.call('HSET', pool, id, record)
  local group = order().group(id)
  order().left(id)
  order().place(id, due, group)
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
  local group = order().group(id)
  kept = free_name(kept, record)
  if not kept then
    return PUT_BACK
  end
  redis.call('HSET', pool, kept, record)
  redis.call('HSET', tries, kept, note)
  if how == HOW_SINK then
    order().place(kept, now, group)
    return KEPT
  end
  redis.call('ZADD', dead, now, kept)
  if group then
    order().note(kept, now, group)
  end
  return KEPT
end

local function bury(id, note)
  redis.call('ZREM', base .. ':ttl', id) -- a dead letter of a queue does not expire
  redis.call('ZADD', dead, now, id)
  redis.call('HSET', tries, id, note)
  order().left(id, true)
  return BURIED
end

-- Of a job that is not given up as a whole; at: of its row.
local function put_back(at, how)
  local id, due, note, record = ARGV[at], ARGV[at + DUE_MS], ARGV[at + TRIES], ARGV[at + RECORD]
  local kept, code = ARGV[at + KEPT_ID], PUT_BACK
  if kept ~= '' then
    code = keep_run(id, kept, ARGV[at + KEPT_RECORD], ARGV[at + KEPT_TRIES], how)
  end
  if note ~= '' then
    redis.call('HSET', tries, id, note)
  elseif redis.call('HDEL', tries, id) == 1 then
    outdate(id, ARGV[at + LEASE])
    redis.call('HDEL', base .. ':ended', id)
  end
  if record ~= '' then
    run_again(id, due, record)
    sums_add('repeated', 1)
    sums_add('stored', code == KEPT and 1 or 0)
  elseif kept ~= '' then -- it goes on under that name, or has before
    local _, bodies = order().gone(id)
    sums_add('dropped', bodies - (code == KEPT and 1 or 0))
  else
    redis.call('ZADD', delay, due, id)
  end
  return code
end

-- It is claimed by that lease.
local function settle(at, how)
  local id, lease = ARGV[at], ARGV[at + LEASE]
  redis.call('ZREM', unack, id)
  local code
  if order().cancelled(redis.call('HGET', tries, id)) then
    outdate(id, lease)
    sums_add('cancelled', select(2, order().gone(id)))
    code = CANCELLED
  else
    code = how == HOW_BURY and bury(id, ARGV[at + TRIES]) or put_back(at, how)
  end
  if code == CANCELLED or code == KEPT then
    late().add(late().name(id, lease), code)
  end
  return code
end

local codes = {}
for at = FIRST_ROW, #ARGV, ROW do
  local id, lease, how = ARGV[at], ARGV[at + LEASE], string.lower(ARGV[at + HOW])
  local held = redis.call('ZSCORE', unack, id)
  if held and tonumber(held) == tonumber(lease) then
    codes[#codes + 1] = settle(at, how)
  else
    order().returned(id, lease)
    local before = how == HOW_BURY and CANCELLED or CANCELLED .. KEPT
    codes[#codes + 1] = late().stale(id, lease, before, string.find(ARGV[at + HOW], '%u'))
  end
end
write_notes()
return { first_due(), table.concat(codes) }
