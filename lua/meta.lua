-- SPDX-License-Identifier: BSD-2-Clause
-- meta.lua - reads the metadata of all keys, and changes it unless another instance has changed it.
--
--   KEYS[1]  hash  PREFIX:meta  layout, least_reader, least_writer, route:NAME, sink:NAME: see
--            bridge/engine/meta.h
--
-- Returns {1 or 0, field, value, field, value, ...}, all fields as they are now. 1: all expected values matched, and
-- the changes were made; 0: a value differed, or no change was requested. A second run returns 0.
local agree = #ARGV > 0
for at = FIRST_ROW, #ARGV, ROW do
  agree = agree and (redis.call('HGET', KEYS[1], ARGV[at]) or '') == ARGV[at + EXPECTED]
end
for at = FIRST_ROW, agree and #ARGV or 0, ROW do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + VALUE])
end
local out = redis.call('HGETALL', KEYS[1])
table.insert(out, 1, agree and 1 or 0)
return out
