-- SPDX-License-Identifier: BSD-2-Clause
-- lib/rank.lua - where a sorted set goes on behind a place that was told before, although what stood
-- there may have gone.

-- By bytes, as Redis orders members; the operator may follow a locale.
local function rank_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- The rank of the first member behind that of this score and id. O(log n) for each of log n.
local function rank_behind(key, score, id)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if rank_before(id, redis.call('ZRANGE', key, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end
