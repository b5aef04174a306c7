-- SPDX-License-Identifier: BSD-2-Clause
-- move.lua - takes jobs of the first slot of due time (lib/far.lua) to where they wait for their
-- time, shortly before it comes.
--
--   KEYS[1]  hash  :pool    job id -> encoded job; the other keys are made of it
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  how early in ms: a slot is moved from so long before its start on
--   ARGV[3]  entries of it at most, not more than 1000
--   ARGV[4]  channel to wake other instances on   ARGV[5]  the text of the wake
--
-- Returns {moved, taken, left, slot, head, now}: jobs that wait now; entries taken, also of jobs
--   that had gone; entries left in that slot; start of the first slot left in ms, or -1; due time
--   of the first job in :delay (of a queue in us), or -1.
-- Nothing is taken before its time: then moved and taken are 0. Any number of callers may do it.
-- What is read is read before the first write: an error loses nothing. Cost: O(k log n) for k entries. Called by store_far.c.
--#include lib/far.lua
--#include lib/far_move.lua
--#include lib/order.lua
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local delay = base .. ':delay'
local was = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local start, moved, taken, left = far_first(base), 0, 0, 0
if start >= 0 and start - now <= tonumber(ARGV[2]) then
  moved, taken, left = far_move(base, start, tonumber(ARGV[3]), order_place)
end
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
if head and (not was or tonumber(head) < tonumber(was)) then
  redis.pcall('PUBLISH', ARGV[4], ARGV[5]) -- may be denied: others then look a little later
end
return { moved, taken, left, far_first(base), tonumber(head or -1), now }
