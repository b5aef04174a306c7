-- SPDX-License-Identifier: BSD-2-Clause
-- lib/head.lua - the first due time of a bucket, -1 none.
local function first_due()
  return tonumber(redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2] or -1)
end
