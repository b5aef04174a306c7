-- SPDX-License-Identifier: BSD-2-Clause
-- unlist.lua - removes a queue from the list if no job was added to it for long.
--
--   KEYS[1]  zset  :queues  name of a queue, scored by the approximate time of its last job, in ms
--
-- Returns the number of removed names: 0 if a job was added since.
local score = redis.call('ZSCORE', KEYS[1], name)
return score and tonumber(score) == used_ms and redis.call('ZREM', KEYS[1], name) or 0
