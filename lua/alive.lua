-- SPDX-License-Identifier: BSD-2-Clause
-- alive.lua - registers or removes one instance, and returns the live instances.
--
--   KEYS[1]  zset  PREFIX:alive  "ID ROUTE ROUTE..." of an instance: its name, the routes that it
--            serves; scored by when it last said so, in ms
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  member of the caller   ARGV[3]  '1': remove it; '': register it
--   ARGV[4]  how long a registration is valid, in ms
--
-- Returns the valid members, sorted by text. Deletes expired members, and members too far in the
-- future, which remain after a clock was set back. ZREMRANGEBYSCORE comes first, because Redis out
-- of memory rejects only the first write of a script. Repeatable. Cost: O(log n) and the n members.
local span = tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - span)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now + span, '+inf')
if ARGV[3] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[2])
else
  redis.call('ZADD', KEYS[1], now, ARGV[2])
end
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
table.sort(members)
return members
