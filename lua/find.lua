-- SPDX-License-Identifier: BSD-2-Clause
-- find.lua - says where one job of a bucket stands. Changes nothing.
--
--   KEYS[1]  hash  :pool    job id -> encoded job
--   KEYS[2]  zset  :delay   KEYS[3]  zset  :unack   KEYS[4]  zset  :error
--   KEYS[5]  hash  :tries   job id -> attempts and last error
--   ARGV[1]  job id
--
-- Returns {state, score, encoded job, tries or nil}; state: n not there, w waiting (score:
--   due; also behind others of its group, or far, see lib/far.lua), f in flight (score: end of lease), d dead (score:
--   time of burial).
-- Called by store_find() in bridge/store/store_call.c.
--#include lib/order.lua
--#include lib/far.lua
local id = ARGV[1]
local body = redis.call('HGET', KEYS[1], id)
if not body then
  local due, record = far_find(base, id)
  return { due and 'w' or 'n', due or 0, record or '', false }
end
local tries = redis.call('HGET', KEYS[5], id)
for key, state in pairs({ [2] = 'w', [3] = 'f', [4] = 'd' }) do
  local score = redis.call('ZSCORE', KEYS[key], id)
  if score then
    return { state, tonumber(score), body, tries }
  end
end
local place = redis.call('HGET', base .. ':place', id)
if place and redis.call('ZSCORE', base .. ':held', place .. id) then
  return { 'w', order_due(place), body, tries }
end
return { 'n', 0, '', false }
