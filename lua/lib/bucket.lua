-- SPDX-License-Identifier: BSD-2-Clause
-- lib/bucket.lua - the first part of every script: the keys of its bucket, and the clock.
--
-- Every script may use all functions of lib/. Every function definition costs time in each call, so
-- etc/build/embed-lua.sh omits those that a script does not use. Functions for rare work are in
-- objects: late(), order(), far() or far_moves() creates its object at the first call.
--
-- The first write of a script is ZREM (possibly of '', which is never a member) or HDEL. Redis out
-- of memory rejects only a first write that may need memory, so jobs can still leave. The cost of a
-- script is O(k log n) for k jobs, unless it says otherwise.
local pool = KEYS[1] -- hash: job id -> encoded job
local base = string.sub(pool, 1, -6) -- common prefix of the bucket's keys
local delay = base .. ':delay' -- zset: job id, scored by due time in ms, in us for a queue
local unack = base .. ':unack' -- zset: job id, scored by the lease: its end in ms, also its token
local dead = base .. ':error' -- zset: job id, scored by time of burial in ms
local tries = base .. ':tries' -- hash: job id -> attempts and last error (bridge/job/tries.h)
-- hash: job id -> the base of its queue, if ids are global in a sink; else nil
local owners = KEYS[2] ~= base .. ':whole' and KEYS[2] or nil
local IS_CANCELLED = '^%d+|cancelled|' -- matches :tries of a job that was cancelled in flight (lua/cancel.lua)
local late_made, order_made, far_made, far_moves_made -- libraries created in this call

-- Returns the time of the call in us and in ms: that of the server, or of ARGV[1] in tests.
local function clock()
  local t = tonumber(ARGV[1]) and { 0, ARGV[1] * 1000 } or redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return us, math.floor(us / 1000)
end

-- Returns the first score of a sorted set, or -1: for :delay the first due time.
local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or -1)
end

-- Returns the first end of a lease, also of one that a group waits for (lib/order.lua), or -1.
local function first_lease(in_flight, away)
  local lease, waiting = first_score(in_flight), first_score(away)
  return (lease < 0 or waiting < 0) and math.max(lease, waiting) or math.min(lease, waiting)
end

-- Returns whether a score of :unack, or false, is this lease. Both are whole numbers, so their texts nearly always equal.
local function holds(score, lease)
  return score and (score == lease or tonumber(score) == tonumber(lease))
end

-- Parses the field how of a row (lua/scripts.def). Returns its value, whether the change was sent
-- before without an answer, and the number of the change or nil.
local function read_how(text)
  if #text == 0 or (#text == 1 and text ~= '+') then
    return text, false -- nearly always
  end
  local how, again, number = string.match(text, '^(%a?)(%+?)(%d*)$')
  return how, again == '+', number ~= '' and number or nil
end

-- Appends two values to a list.
local function push(list, a, b)
  local n = #list
  list[n + 1], list[n + 2] = a, b
end

-- Splits long lists: unpack() of several thousand values fails, and Redis does not roll back.
local function call_in_slices(command, key, list)
  for from = 1, #list, 1000 do
    redis.call(command, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
