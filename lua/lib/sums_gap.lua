-- SPDX-License-Identifier: BSD-2-Clause
-- lib/sums_gap.lua - do the sums of a bucket (lib/sums.lua) agree with it?
local SUMS_LEFT = { 'delivered', 'cancelled', 'expired', 'exhausted', 'replaced', 'dropped' }

-- So many jobs are in the bucket that its sums do not know of; less than 0: are missing.
local function sums_gap(base)
  local left = redis.call('HMGET', base .. ':sums', 'base', 'stored', unpack(SUMS_LEFT))
  local known = (tonumber(left[1] or 0) or 0) + (tonumber(left[2] or 0) or 0)
  for i = 3, #left do
    known = known - (tonumber(left[i] or 0) or 0)
  end
  local far = tonumber(redis.call('HGET', base .. ':slots', '#') or 0) or 0 -- lib/far.lua
  return redis.call('HLEN', base .. ':pool') + far - redis.call('ZCARD', base .. ':done') - known
end
