-- SPDX-License-Identifier: BSD-2-Clause
-- ahead.lua - counts the pending jobs of a bucket by due time. Changes nothing.
--
-- A far job counts at the start of its slot (lib/far.lua), which is less than a minute before it is due. Cost:
-- O(bins log n), and the counts of all half hours, or of SLOTS_MAX slots if the bins are shorter.
local HALVES_MAX = 1000 -- read at once, because that is faster than naming a week of them
local SLOTS_MAX = 1000 -- more than 60 an hour only if redis.horizon is shorter than two minutes
local counts, overdue, later = {}, 0, 0

-- Adds jobs of :delay to the bins.
local function add_near()
  local unit, all = of_queue and 1000 or 1, redis.call('ZCARD', delay)
  overdue = redis.call('ZCOUNT', delay, '-inf', string.format('%.0f', of_queue and now_us or now))
  local below = overdue
  for i = 1, bins do
    local n = below -- most buckets have near jobs only in the first bins
    if below < all then
      n = math.max(redis.call('ZCOUNT', delay, '-inf', string.format('(%.0f', (from_ms + i * bin_ms) * unit)), below)
    end
    counts[i], below = n - below, n
  end
  later = all - below
end

-- Adds far jobs that are due from start on. Returns their number.
local function add_far(start, n)
  local bin = math.floor((start - from_ms) / bin_ms) + 1
  n = math.max(n, 0) -- unless the counts are wrong
  if bin < 1 then
    overdue = overdue + n
  elseif bin <= bins then
    counts[bin] = counts[bin] + n
  else
    return 0
  end
  return n
end

-- Adds the far jobs due before upto, by half hours. Returns their number.
local function add_halves(first, upto)
  local starts, found, key = {}, 0, base .. ':halves'
  if redis.call('HLEN', key) <= HALVES_MAX then
    local rows = redis.call('HGETALL', key)
    for i = 1, #rows, 2 do
      found = found + add_far(tonumber(rows[i]), tonumber(rows[i + 1]))
    end
    return found
  end
  for half = far().half(math.min(first, from_ms)), upto - 1, FAR_HALF_MS do
    starts[#starts + 1] = string.format('%.0f', half)
  end
  for i, n in ipairs(redis.call('HMGET', key, unpack(starts))) do
    found = found + (n and add_far(tonumber(starts[i]), tonumber(n)) or 0)
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
