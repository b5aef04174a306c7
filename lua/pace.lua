-- SPDX-License-Identifier: BSD-2-Clause
-- pace.lua - when jobs may leave for their targets, so that each target keeps to its rate.
--
--   hash  :targets  OWNER .. target -> "FREE PROMISED", both in us since 1970
--
-- FREE is the theoretical arrival time of the generic cell rate algorithm. Only a job that leaves moves it, so
--   no window of t us has more than t / interval_us + burst of them, whenever the delayed jobs ask again. PROMISED
--   is the time for the next job that has to ask again: delayed jobs leave one by one, in their order, before new ones.
-- A field whose times are both over is not needed. For each new field the script looks at two others, at random,
--   and deletes those that are over. The hash expires when all fields are over.
-- Not repeatable: a second run reserves further places. HDEL comes first: lib/bucket.lua. Cost: O(1) a job.
local key = base .. ':targets'
local HOLD_MAX = 1000000
local now = tonumber(ARGV[1]) or clock()
interval_us = tonumber(interval_us)
local tolerance = (burst - 1) * interval_us

local fields, number = {}, {}
for i = FIRST_ROW, #ARGV, ROW do
  local field = owner .. ARGV[i]
  if not number[field] then
    fields[#fields + 1] = field
    number[field] = #fields
  end
end
local free, promised, added = {}, {}, 0
local function times(text)
  local f, p = string.match(text, '^(%d+) (%d+)$')
  return tonumber(f or 0), tonumber(p or 0)
end
for i, text in ipairs(redis.call('HMGET', key, unpack(fields))) do
  added = added + (text and 0 or 1)
  free[i], promised[i] = times(text or '')
  -- FREE is further away than a job can have moved it: the clock was set back, or the rate raised.
  -- PROMISED has no such limit, but both come from the same clock, so both move back.
  local beyond = math.max(0, free[i] - (now + burst * interval_us + HOLD_MAX))
  free[i], promised[i] = free[i] - beyond, math.max(0, promised[i] - beyond)
end

local out = {}
for i = FIRST_ROW, #ARGV, ROW do
  local n, came_back = number[owner .. ARGV[i]], ARGV[i + CAME_BACK] == '1'
  local place = math.max(now, free[n] - tolerance)
  if place - now <= hold_us and (came_back or promised[n] <= now) then
    free[n] = math.max(free[n], place) + interval_us
    out[#out + 1] = math.ceil(place - now)
  else
    place = math.max(place, promised[n])
    promised[n] = place + interval_us
    out[#out + 1] = -math.max(1, math.ceil(place - now))
  end
end

local over = { '' }
if added > 0 then
  local some = redis.call('HRANDFIELD', key, 2 * added, 'WITHVALUES')
  for i = 1, #some, 2 do
    local f, p = times(some[i + 1])
    if f <= now and p <= now and not number[some[i]] then
      over[#over + 1] = some[i]
    end
  end
end
redis.call('HDEL', key, unpack(over))
local set, last = {}, now
for i, field in ipairs(fields) do
  push(set, field, string.format('%.0f %.0f', math.ceil(free[i]), math.ceil(promised[i])))
  last = math.max(last, free[i], promised[i])
end
redis.call('HSET', key, unpack(set))
local keep_ms = math.ceil((last - now) / 1000) + 1000
if redis.call('PTTL', key) < keep_ms then
  redis.call('PEXPIRE', key, keep_ms)
end
return out
