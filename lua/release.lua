-- SPDX-License-Identifier: BSD-2-Clause
-- release.lua - gives jobs that consumers of a queue hold back to it.
--
--   KEYS, ARGV[1..7]  lib/queue.lua
--   then four per job: id, lease (the token of the delivery; '' whoever has it), when it is due
--   in us ('' now), '' or 'u' the delivery does not count: nobody has got it
--
-- Returns {head, codes}: head as of pull.lua; one letter per job:
--   r due again   b out of tries: a dead letter, or ended   x not in flight, or not this
--   lease's; also a job of a route, which no consumer holds   n not there
-- Repeatable with a lease. Cost: O(k log n) for k jobs. Called by store_release() in
-- bridge/store/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
local codes, of_route = {}, ARGV[2] == ''
for at = 8, #ARGV, 4 do
  local id, lease = ARGV[at], ARGV[at + 1]
  local due = tonumber(ARGV[at + 2]) or now_us + #codes -- in the order of the call
  local held = tonumber(redis.call('ZSCORE', unack, id) or nil)
  local code
  if not held or of_route or (lease ~= '' and held ~= tonumber(lease)) then
    code = (redis.call('HEXISTS', pool, id) == 1 or is_far(id)) and 'x' or 'n'
  else
    if ARGV[at + 3] == 'u' then
      redis.call('ZREM', unack, id)
      redis.call('ZADD', delay, due, id)
      code = 'r'
    else
      code = put_back(id, held, due, 'released') and 'r' or 'b'
    end
  end
  codes[#codes + 1] = code
end
return { head(), table.concat(codes), expired, timed_out, exhausted, slot }
