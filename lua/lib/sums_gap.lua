-- SPDX-License-Identifier: BSD-2-Clause
-- lib/sums_gap.lua - do the sums of a bucket (lib/bucket.lua) agree with it?

-- So many jobs are in the bucket that its sums do not know of; less than 0: are missing.
local function sums_gap()
  local counts = redis.call('HMGET', base .. ':sums', 'base', 'stored', 'delivered', 'cancelled', 'expired',
                            'exhausted', 'replaced', 'dropped')
  local known = 0
  for i = 1, 8 do
    local n = tonumber(counts[i] or 0) or 0
    known = known + (i <= 2 and n or -n)
  end
  local far = tonumber(redis.call('HGET', base .. ':slots', '#') or 0) or 0 -- lib/far.lua
  return redis.call('HLEN', pool) + far - redis.call('ZCARD', base .. ':done') - known
end
