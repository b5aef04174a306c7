-- SPDX-License-Identifier: BSD-2-Clause
-- retry.lua - puts claimed jobs of one bucket back for a later claim, or buries them.
--
-- Only the lease that claimed the job counts: a late outcome of an earlier claim changes nothing, and a run of a
-- cancelled or replaced job is not kept. A retried job stays in front of its group. A next run is a new job of that
-- group (lib/order.lua). A failed run is kept under ID@DIGITS; if another job has that id, under ID@0DIGITS, and so
-- on. Without a next run the original job is removed. A second run answers STALE if the first put the job back or
-- buried it, else the same as the first.

-- Keeps a failed run as a job of its own. If another near or far job (lib/far.lua) has the id,
-- zeros are added before its final digits, and the run stays in this bucket
-- (bridge/engine/route_buckets.c). Returns PUT_BACK if this run is already kept.
local function keep_run(id, kept, record, note, how)
  local there = redis.call('HGET', pool, kept)
  while there ~= record and (there or redis.call('HEXISTS', base .. ':where', kept) == 1) do
    local longer, named = string.gsub(kept, '@(%d+)$', '@0%1')
    kept = named == 1 and longer or kept .. '@0'
    there = redis.call('HGET', pool, kept)
  end
  if there then
    return PUT_BACK
  end
  local group = order().group(id)
  redis.call('HSET', pool, kept, record)
  redis.call('HSET', tries, kept, note)
  if how == HOW_SINK then
    order().place(kept, now, group)
  else
    redis.call('ZADD', dead, now, kept)
    if group then
      order().note(kept, now, group)
    end
  end
  return KEPT
end

-- Settles a job that is claimed by this lease. at: index of its row in ARGV.
local function settle(id, lease, at, how)
  local note, record, kept = ARGV[at + TRIES], ARGV[at + RECORD], ARGV[at + KEPT_ID]
  redis.call('ZREM', unack, id)
  local was = redis.call('HGET', tries, id)
  if was and string.find(was, IS_CANCELLED) then
    remove(id, 'cancelled', lease)
    return CANCELLED
  elseif how == HOW_BURY then
    redis.call('ZREM', base .. ':ttl', id) -- a dead letter of a queue does not expire
    redis.call('ZADD', dead, now, id)
    redis.call('HSET', tries, id, note)
    leave_group(id, true)
    return BURIED
  end
  local code = kept == '' and PUT_BACK or keep_run(id, kept, ARGV[at + KEPT_RECORD], ARGV[at + KEPT_TRIES], how)
  if note ~= '' then
    redis.call('HSET', tries, id, note)
  elseif redis.call('HDEL', tries, id) == 1 then
    outdate(id, lease) -- of this run
    redis.call('HDEL', base .. ':ended', id)
  end
  if record ~= '' then -- the next run starts without tries
    redis.call('HSET', pool, id, record)
    local group = order().group(id)
    leave_group(id)
    order().place(id, ARGV[at + DUE_MS], group)
    sums_add('repeated', 1)
    sums_add('stored', code == KEPT and 1 or 0)
  elseif kept ~= '' then -- the run is kept under the other id, now or before
    sums_add('dropped', forget(id) - (code == KEPT and 1 or 0))
    leave_group(id)
  else
    redis.call('ZADD', delay, ARGV[at + DUE_MS], id)
  end
  return code
end

local codes = {}
for at = FIRST_ROW, #ARGV, ROW do
  local id, lease, how, again = ARGV[at], ARGV[at + LEASE], read_how(ARGV[at + HOW])
  local held = redis.call('ZSCORE', unack, id)
  local code
  if holds(held, lease) then
    code = settle(id, lease, at, how)
    if code == CANCELLED or code == KEPT then
      late().add(late().name(id, lease), code)
    end
  else
    order().returned(id, lease)
    code = late().stale(id, lease, how == HOW_BURY and CANCELLED or CANCELLED .. KEPT, again)
  end
  codes[#codes + 1] = code
end
write_notes()
return { first_score(delay), table.concat(codes) }
