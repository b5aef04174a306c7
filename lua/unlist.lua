-- SPDX-License-Identifier: BSD-2-Clause
-- unlist.lua - removes a queue from the list if no job was added to it for long.
--
--   KEYS[1]  zset  :queues  name of a queue, scored by the approximate time of its last job, in ms
--   ARGV[1]  name   ARGV[2]  the score that the caller read
--
-- Returns the number of removed names: 0 if a job was added since.
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or nil) ~= tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
