-- SPDX-License-Identifier: BSD-2-Clause
-- count.lua - counts the jobs of one or more buckets by state. KEYS: :pool of each. Changes
-- nothing.
local out, n = {}, 0
for i = 1, string.sub(KEYS[#KEYS], -6) == ':whole' and #KEYS - 1 or #KEYS do
  local base = string.sub(KEYS[i], 1, -6)
  local delay, unack, dead = base .. ':delay', base .. ':unack', base .. ':error'
  local slot = redis.call('ZRANGE', base .. ':far', 0, 0)[1]
  local far_jobs = slot and tonumber(redis.call('HGET', base .. ':slots', '#')) or 0
  out[n + 1] = far_jobs + redis.call('ZCARD', delay) + redis.call('ZCARD', base .. ':held')
  out[n + 2] = redis.call('ZCARD', unack)
  out[n + 3] = redis.call('ZCARD', dead)
  out[n + 4] = redis.call('ZCOUNT', delay, '-inf', now)
  out[n + 5] = first_score(delay)
  out[n + 6] = first_lease(unack, base .. ':away')
  out[n + 7] = now
  out[n + 8] = far_jobs
  out[n + 9] = tonumber(slot or -1)
  n = n + 9
end
return out
