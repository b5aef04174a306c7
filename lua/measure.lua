-- SPDX-License-Identifier: BSD-2-Clause
-- measure.lua - counts the jobs of a queue.
--
-- The age is the mean of all ready jobs, or of SAMPLES evenly spread ones. Cost: O(limits log n).
local SAMPLES = 16
settle_head()
local all, ready = redis.call('ZCARD', delay), redis.call('ZCOUNT', delay, '-inf', now_due)
local slots, far_all = {}, 0
if slot >= 0 then
  slots, far_all = far_moves().slots(now + (#ARGV >= FIRST_ROW and tonumber(ARGV[#ARGV]) or 0)), far().count()
end
all = all + far_all
local age, looked = 0, #ARGV >= FIRST_ROW + 2 and math.min(ready, SAMPLES) or 0
for i = 0, looked - 1 do
  local rank = math.floor((i + 0.5) * ready / looked)
  age = age + now_due - tonumber(redis.call('ZRANGE', delay, rank, rank, 'WITHSCORES')[2])
end
age = looked > 0 and math.floor(age / looked / UNIT) or 0
local out = { now, ready, all - ready, redis.call('ZCARD', unack), redis.call('ZCARD', dead), redis.call('ZCARD', done),
              age, ready > 0 and in_ms(first_score(delay)) or -1, far_all }
local below = 0
for at = FIRST_ROW, #ARGV do
  local n = redis.call('ZCOUNT', delay, '-inf', now_due + UNIT * ARGV[at])
  for _, one in ipairs(slots) do
    n = n + (one[1] <= now + ARGV[at] and one[2] or 0)
  end
  out[#out + 1] = n - below
  below = n
end
out[#out + 1] = all - below
return reply(out)
