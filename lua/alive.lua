-- SPDX-License-Identifier: BSD-2-Clause
-- alive.lua - one instance says that it is there, or goes, and hears who else is.
--
--   KEYS[1]  zset  PREFIX:alive  "ID ROUTE ROUTE..." of an instance: its name, the routes that it
--            serves; scored by when it last said so, in ms
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  member of the caller   ARGV[3]  '1': it goes; '': it is there
--   ARGV[4]  for how long a word counts, in ms
--
-- Returns the members that count, in the order of their texts. The others are taken out; so is
-- one from a future further away than that, which a clock that was set back has left.
-- ZREMRANGEBYSCORE comes first: a server out of memory refuses only the first write of a script.
-- Repeatable. Cost: O(log n) and the n members.
--#include lib/bucket.lua
--#include lib/now.lua
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
