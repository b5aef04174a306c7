-- SPDX-License-Identifier: BSD-2-Clause
-- cancel.lua - takes jobs of one bucket out before they are delivered.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--   KEYS[5]  hash  :tries   job id -> attempts and last error
--   KEYS[6]  zset  :ttl     KEYS[7]  hash  :ids, or not given: a queue's, see lib/queue.lua
--   ARGV     job ids
--
-- A job in flight stays: whether it has reached the other end is not known here.
-- Returns one letter per id:
--   c cancelled: it waited   e cancelled: it was a dead letter   f in flight   n not there
-- A second run answers n. Cost: O(k log n) for k ids. Called by store_cancel() in
-- bridge/store.c.
local codes = {}
for i, id in ipairs(ARGV) do
  local code = 'n'
  if redis.call('ZREM', KEYS[2], id) == 1 then
    code = 'c'
  elseif redis.call('ZREM', KEYS[4], id) == 1 then
    code = 'e'
  elseif redis.call('ZSCORE', KEYS[3], id) then
    code = 'f'
  end
  if code == 'c' or code == 'e' then
    redis.call('HDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[5], id)
    redis.call('ZREM', KEYS[6], id)
    if KEYS[7] then
      redis.call('HDEL', KEYS[7], id)
    end
  end
  codes[i] = code
end
return table.concat(codes)
