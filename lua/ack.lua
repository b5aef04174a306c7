-- SPDX-License-Identifier: BSD-2-Clause
-- ack.lua - forgets delivered jobs of one bucket.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--   KEYS[5]  hash  :tries   job id -> attempts and last error
--   ARGV     two per job: id, lease (the token of the claim)
--
-- A job that was delivered may be acked also after its lease has ended: it then stands in
-- :delay again, or with another instance, and need not be sent once more. Such a job has an
-- entry in :tries. One that has none, and not this lease, is a new job of the same id: the
-- first was acked before, by a call whose answer was lost, and the new one stays.
-- Returns how many were forgotten. Repeatable.
-- Cost: O(k log n) for k jobs. Called by store_ack() in bridge/store_call.c.
local ids = {}
for at = 1, #ARGV, 2 do
  ids[#ids + 1] = ARGV[at]
end
local leases = redis.call('ZMSCORE', KEYS[3], unpack(ids))
local gone, strayed = {}, false
for i, id in ipairs(ids) do
  local mine = leases[i] and tonumber(leases[i]) == tonumber(ARGV[2 * i])
  if mine or redis.call('HEXISTS', KEYS[5], id) == 1 then
    gone[#gone + 1] = id
    strayed = strayed or not mine
  end
end
if #gone == 0 then
  return 0
end
redis.call('ZREM', KEYS[3], unpack(gone))
if strayed then
  redis.call('ZREM', KEYS[2], unpack(gone))
  redis.call('ZREM', KEYS[4], unpack(gone))
end
redis.call('HDEL', KEYS[5], unpack(gone))
return redis.call('HDEL', KEYS[1], unpack(gone))
