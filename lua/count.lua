-- SPDX-License-Identifier: BSD-2-Clause
-- count.lua - counts the jobs of a bucket by state. Changes nothing.
local slot = first_score(base .. ':far')
local far_jobs = slot >= 0 and tonumber(redis.call('HGET', base .. ':slots', '#')) or 0
return { far_jobs + redis.call('ZCARD', delay) + redis.call('ZCARD', base .. ':held'), redis.call('ZCARD', unack),
         redis.call('ZCARD', dead), redis.call('ZCOUNT', delay, '-inf', now), first_score(delay),
         first_lease(unack, base .. ':away'), now, far_jobs, slot }
