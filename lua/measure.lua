-- SPDX-License-Identifier: BSD-2-Clause
-- measure.lua - how many jobs of a queue stand where.
--
--   ARGV[8...]  limits in ms, rising: waiting and ready jobs are counted by the time until they
--   are due (negative: since they were), far ones by the start of their slot
--
-- Returns {now, ready, waiting, in flight, dead, ended, age, first due of the ready or -1, then the
--   number of jobs due within each limit and beyond the one before, that of all above, and how many are
--   far}; age, only with three limits or more: mean time in ms since the ready ones were due; of more
--   than SAMPLES as many, evenly spread. Cost: O(limits log n).
--#include lib/queue.lua
local SAMPLES = 16
settle_head()
local all, ready = redis.call('ZCARD', delay), redis.call('ZCOUNT', delay, '-inf', now_due)
local slots, far_all = nil, 0
if slot >= 0 then
  slots, far_all = far_moves().span(now + (#ARGV > 7 and tonumber(ARGV[#ARGV]) or 0)), far().count()
end
all = all + far_all
local out = { now, ready, all - ready, redis.call('ZCARD', unack), redis.call('ZCARD', dead),
              redis.call('ZCARD', done) }
if #ARGV > 9 then
  local age, looked = 0, math.min(ready, SAMPLES)
  for i = 0, looked - 1 do
    local rank = math.floor((i + 0.5) * ready / looked)
    age = age + now_due - tonumber(redis.call('ZRANGE', delay, rank, rank, 'WITHSCORES')[2])
  end
  out[#out + 1] = looked > 0 and math.floor(age / looked / UNIT) or 0
end
out[#out + 1] = ready > 0 and in_ms(first(delay)) or -1
local below = 0
for at = 8, #ARGV do
  local n = redis.call('ZCOUNT', delay, '-inf', now_due + UNIT * ARGV[at])
  for _, one in ipairs(slots or {}) do
    n = n + (one[1] <= now + ARGV[at] and one[2] or 0)
  end
  out[#out + 1] = n - below
  below = n
end
out[#out + 1] = all - below
out[#out + 1] = far_all
return reply(out)
