-- SPDX-License-Identifier: BSD-2-Clause
-- retry.lua - puts claimed jobs of one bucket back, to be claimed again later.
--
--   KEYS[1]  zset  :unack   job id, scored by the end of its lease in ms
--   KEYS[2]  zset  :delay   job id, scored by due time in ms
--   KEYS[3]  hash  :tries   job id -> attempts and last error
--   ARGV     four per job: id, lease (the token of the claim), next due in ms, tries
--
-- Only for the lease that claimed the job: a late word of an earlier claim changes nothing.
-- ZREM comes first: see claim.lua.
-- Returns {head, codes}: due time of the first job in KEYS[2]; one letter per job:
--   r put back   x not this lease's any more
-- Repeatable. Cost: O(k log n) for k jobs. Called by store_retry() in bridge/store.c.
local codes = {}
for at = 1, #ARGV, 4 do
  local id = ARGV[at]
  local lease = redis.call('ZSCORE', KEYS[1], id)
  if lease and tonumber(lease) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZADD', KEYS[2], ARGV[at + 2], id)
    redis.call('HSET', KEYS[3], id, ARGV[at + 3])
    codes[#codes + 1] = 'r'
  else
    codes[#codes + 1] = 'x'
  end
end
local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
return { tonumber(head or -1), table.concat(codes) }
