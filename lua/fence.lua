-- SPDX-License-Identifier: BSD-2-Clause
-- fence.lua - makes a bucket reject new jobs of instances that use an earlier number of buckets.
--
--   KEYS[1]  hash  :sums  field epoch: enqueue.lua rejects a batch of an earlier epoch (bridge/engine/meta.h)
--
-- Returns the epoch of the bucket, which never decreases. Repeatable.
local was = tonumber(redis.call('HGET', KEYS[1], 'epoch') or 0)
if epoch > was then
  redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', epoch))
end
return math.max(epoch, was)
