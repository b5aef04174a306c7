-- SPDX-License-Identifier: BSD-2-Clause
-- touch.lua - gives one job that a consumer holds a new lease.
--
--   KEYS, ARGV[1..6]  lib/queue.lua
--   ARGV[7] id   ARGV[8] lease (the token of the delivery; '' whoever has it)
--   ARGV[9] how long the new lease is in ms
--
-- Returns {code, lease}: t done, and the new token   x not in flight, or not this lease's
--   (or the job of a route, which no consumer holds)   n not there. Called by store_touch() in bridge/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
local id, lease = ARGV[7], ARGV[8]
local held = tonumber(redis.call('ZSCORE', unack, id) or nil)
head()
if not held or ARGV[2] == '' or (lease ~= '' and held ~= tonumber(lease)) then
  return { redis.call('HEXISTS', pool, id) == 1 and 'x' or 'n', 0, expired, timed_out, exhausted }
end
local new = soon + tonumber(ARGV[9])
redis.call('ZREM', unack, id)
redis.call('ZADD', unack, new, id)
return { 't', new, expired, timed_out, exhausted }
