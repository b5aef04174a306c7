-- SPDX-License-Identifier: BSD-2-Clause
-- unlist.lua - takes a queue off the list that no job has come to for long.
--
--   KEYS[1]  zset  :queues  name of a queue, scored by about when a job last came, in ms
--   ARGV[1]  name   ARGV[2]  the score as it was read
--
-- Returns how many: 0 where a job has come since.
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or nil) ~= tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
