-- SPDX-License-Identifier: BSD-2-Clause
-- ack.lua - forgets delivered jobs of one bucket, wherever they stand by now.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--   KEYS[5]  hash  :tries   job id -> attempts and last error
--   ARGV     job ids
--
-- A job that was delivered may always be acked, also after its lease has ended: it then
-- stands in :delay again, or with another instance, and need not be sent once more.
-- Returns how many were there. Repeatable.
-- Cost: O(k log n) for k jobs. Called by store_ack() in bridge/store.c.
local gone = redis.call('HDEL', KEYS[1], unpack(ARGV))
local leased = redis.call('ZREM', KEYS[3], unpack(ARGV))
if leased < #ARGV then
  redis.call('ZREM', KEYS[2], unpack(ARGV))
  redis.call('ZREM', KEYS[4], unpack(ARGV))
end
redis.call('HDEL', KEYS[5], unpack(ARGV))
return gone
