-- SPDX-License-Identifier: BSD-2-Clause
-- lib/bucket.lua - the prelude of every script about a bucket: its keys and the clock.
--
-- A call pays for each function that its script makes. So etc/build/embed-lua.sh leaves out the functions that
-- a script does not use, and rare work is in a library: late(), order(), far() or far_moves() makes the
-- functions of that library when it is first called.
--
-- Of the writes of a script ZREM comes first (also of '', which is never there), or HDEL: when Redis is
-- out of memory it refuses only a first write that may need some, so jobs can still leave.
local pool = KEYS[1] -- hash: job id -> encoded job
local base = string.sub(pool, 1, -6) -- what all keys of the bucket begin with
local delay = base .. ':delay' -- zset: job id, scored by due time in ms, of a queue in us
local unack = base .. ':unack' -- zset: job id, scored by the end of its lease in ms, its token
local dead = base .. ':error' -- zset: job id, scored by time of burial in ms
local tries = base .. ':tries' -- hash: job id -> attempts and last error (bridge/job/tries.h)
-- hash: job id -> the base of its queue, where an id names one job in all queues of a sink; or nil
local owners = KEYS[2] ~= base .. ':whole' and KEYS[2] or nil
local now_us, now -- set by lib/now.lua
local IS_CANCELLED = '^%d+|cancelled|' -- matches :tries of a job that was cancelled in flight (lua/cancel.lua)
local late_made, order_made, far_made, far_moves_made -- libraries that this call has made

-- The time of the call in us: of the server, or as a test says.
local function clock_us()
  local t = tonumber(ARGV[1]) and { 0, ARGV[1] * 1000 } or redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Reads a how of a row (lua/scripts.def): its value, whether the change was sent before and its answer was
-- lost, and the number of the change or nil.
local function read_how(text)
  local how, again, number = string.match(text, '^(%a?)(%+?)(%d*)$')
  return how, again == '+', number ~= '' and number or nil
end

-- In slices: unpack() of more than some thousands fails, and nothing is rolled back then.
local function call_in_slices(command, key, list)
  for from = 1, #list, 1000 do
    redis.call(command, key, unpack(list, from, math.min(from + 999, #list)))
  end
end
