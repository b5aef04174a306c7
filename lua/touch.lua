-- SPDX-License-Identifier: BSD-2-Clause
-- touch.lua - gives one job that a consumer holds a new lease.
--
--   KEYS, ARGV[1..7]  lib/queue.lua
--   ARGV[8] id   ARGV[9] lease (the token of the delivery; '' whoever has it)
--   ARGV[10] how long the new lease is in ms
--
-- Returns {code, lease}: t done, and the new token   x not in flight, or not this lease's
--   (or the job of a route, which no consumer holds)   n not there. Called by store_touch() in bridge/store/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
--#include lib/claim.lua
local id, lease = ARGV[8], ARGV[9]
local held = tonumber(redis.call('ZSCORE', unack, id) or nil)
head()
if not held or ARGV[2] == '' or (lease ~= '' and held ~= tonumber(lease)) then
  return { (redis.call('HEXISTS', pool, id) == 1 or is_far(id)) and 'x' or 'n', 0, expired, timed_out, exhausted, slot }
end
local at = claim_time(claims, soon)
local new = at + tonumber(ARGV[10])
redis.call('ZREM', unack, id)
claim_note(claims, at)
redis.call('ZADD', unack, new, id)
return { 't', new, expired, timed_out, exhausted, slot }
