-- SPDX-License-Identifier: BSD-2-Clause
-- tally.lua - counts in a window of fixed length, up to a limit.
--
--   KEYS[1]  hash  {SOURCE}:tally:NAME  n -> counted so far; gone when the window is over
--
-- Returns 1: counted or subtracted; 0: the limit would be exceeded, nothing was counted. Invariant: n is not
-- negative, and its key has a time to live. Not repeatable: a second run counts twice. Cost: O(1).
local key = KEYS[1]
redis.call('HDEL', key, '') -- never there; refused for lack of memory is a first write only
local have = tonumber(redis.call('HGET', key, 'n') or nil)
if amount < 0 then
  if have and have > 0 then
    redis.call('HINCRBY', key, 'n', -math.min(have, -amount))
  end
  return 1
end
if (have or 0) + amount > limit then
  return 0
end
redis.call('HINCRBY', key, 'n', amount)
if not have then
  redis.call('PEXPIRE', key, window_ms)
end
return 1
