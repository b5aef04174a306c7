-- SPDX-License-Identifier: BSD-2-Clause
-- lib/rank.lua - the position at which a listing of a sorted set continues, even if the last member listed is gone.

-- Compares bytes, like Redis. The operator < may depend on the locale.
local function rank_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- Returns the rank of the first member behind this score and id. O(log n) steps of O(log n).
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
