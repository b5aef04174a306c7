-- SPDX-License-Identifier: BSD-2-Clause
-- alive.lua - registers or removes one instance, and returns the live instances.
--
--   KEYS[1]  zset  PREFIX:alive  "ID ROUTE ROUTE..." of an instance: its name, the routes that it
--            serves; scored by when it last said so, in ms
--
-- Returns the valid members, sorted by text. Deletes expired members, those too far in the future,
-- which remain after a clock was set back, and the former member of an instance whose routes changed. ZREMRANGEBYSCORE comes first, because Redis out
-- of memory rejects only the first write of a script. Repeatable. Cost: O(log n) and the n members.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - valid_ms)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now + valid_ms, '+inf')
if gone then
  redis.call('ZREM', KEYS[1], member)
else
  redis.call('ZADD', KEYS[1], now, member)
end
local id, members = string.match(member, '^%S*'), {}
for _, one in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if one ~= member and string.match(one, '^%S*') == id then
    redis.call('ZREM', KEYS[1], one)
  else
    table.insert(members, one)
  end
end
table.sort(members)
return members
