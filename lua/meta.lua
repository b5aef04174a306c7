-- SPDX-License-Identifier: BSD-2-Clause
-- meta.lua - reads what is noted of all keys, and changes it if nobody else has.
--
--   KEYS[1]  hash  PREFIX:meta  layout, least_reader, least_writer, route:NAME, sink:NAME: see
--            bridge/engine/meta.h
--   ARGV     three per change: field, the value it has ('' it is not there), the new one
--
-- Returns {1 or 0, field, value, field, value, ...}: 1: all was as it is said to have been, and is
-- changed; 0: it was not, or no change was asked for. The fields as they are then.
-- A second run answers 0.
local agree = #ARGV > 0
for at = 1, #ARGV, 3 do
  agree = agree and (redis.call('HGET', KEYS[1], ARGV[at]) or '') == ARGV[at + 1]
end
for at = 1, agree and #ARGV or 0, 3 do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
end
local out = redis.call('HGETALL', KEYS[1])
table.insert(out, 1, agree and 1 or 0)
return out
