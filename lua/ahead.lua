-- SPDX-License-Identifier: BSD-2-Clause
-- ahead.lua - counts the pending jobs of a bucket by due time. Changes nothing.
--
-- A far job counts at the start of its slot (lib/far.lua), which is less than a minute before it is due. Cost:
-- O(bins log n), and the counts of all half hours, or of SLOTS_MAX slots if the bins are shorter.
local SLOTS_MAX = 1000 -- more than 60 an hour only if redis.horizon is shorter than two minutes
local counts, overdue, later = {}, 0, 0

-- Adds jobs of :delay to the bins.
local function add_near()
  local unit, below = of_queue and 1000 or 1, 0
  overdue = redis.call('ZCOUNT', delay, '-inf', string.format('%.0f', of_queue and now_us or now))
  below = overdue
  for i = 1, bins do
    local n = redis.call('ZCOUNT', delay, '-inf', string.format('(%.0f', (from_ms + i * bin_ms) * unit))
    counts[i] = math.max(n - below, 0)
    below = math.max(n, below)
  end
  later = redis.call('ZCARD', delay) - below
end

-- Adds far jobs that are due from start on. Returns their number.
local function add_far(start, n)
  local bin = math.floor((start - from_ms) / bin_ms) + 1
  if bin < 1 then
    overdue = overdue + n
  else
    counts[bin] = counts[bin] + n
  end
  return n
end

-- Adds the far jobs due before upto, by half hours. Returns their number.
local function add_halves(first, upto)
  local starts, found = {}, 0
  for half = far().half(math.min(first, from_ms)), upto - 1, FAR_HALF_MS do
    starts[#starts + 1] = string.format('%.0f', half)
  end
  for i, n in ipairs(redis.call('HMGET', base .. ':halves', unpack(starts))) do
    found = found + (n and add_far(tonumber(starts[i]), math.max(tonumber(n), 0)) or 0)
  end
  return found
end

-- The same by slots.
local function add_slots(upto)
  local found = 0
  for _, slot in ipairs(far_moves().slots(string.format('(%.0f', upto), SLOTS_MAX)) do
    found = found + add_far(slot[1], slot[2])
  end
  return found
end

add_near()
local first, upto = far().first(), from_ms + bins * bin_ms
if first >= 0 then
  first = math.max(first, from_ms - 7 * 86400000) -- slots are moved when they are due, unless nothing runs
  local found = bin_ms % FAR_HALF_MS == 0 and add_halves(first, upto) or add_slots(upto)
  later = later + math.max(far().count() - found, 0)
end
local out = { now, overdue, later, redis.call('ZCARD', base .. ':held') }
for i = 1, bins do
  out[4 + i] = counts[i]
end
return out
