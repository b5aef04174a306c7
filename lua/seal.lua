-- SPDX-License-Identifier: BSD-2-Clause
-- seal.lua - closes a bucket of a route to new ids, and says what is left there.
--
--   KEYS[1]  hash  :pool  job id -> encoded job; the other keys are made of it, far jobs
--            (lib/far.lua) count too
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   ARGV[2]  's' seals it, where that is not done; 'c' deletes what a sealed bucket without jobs
--            has left, but for the seal and what the whole route keeps in its first bucket
--            (:pace, :targets, :stopped); '' only looks
--
--   string  :sealed  since when it is, in ms. It stays for good: an instance that slept through
--           everything must not store anything there. enqueue.lua reads it.
--
-- Returns {since when or -1, jobs, until when an id is remembered or 0, now}; jobs 1 also where 'c'
-- has to come again.
-- Repeatable. Cost: O(1). Called by store_seal() in bridge/store/store_meta.c.
local base = string.sub(KEYS[1], 1, -6) -- without ":pool"
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local jobs = redis.call('HLEN', KEYS[1]) + tonumber(redis.call('HGET', base .. ':slots', '#') or 0)
local since = redis.call('GET', base .. ':sealed')
if ARGV[2] == 's' and not since then
  redis.call('SET', base .. ':sealed', now)
  since = now
elseif ARGV[2] == 'c' and since and jobs == 0 then
--#include lib/far.lua
  if far_forget(base) then
    redis.call('DEL', base .. ':ingest', base .. ':seen', base .. ':ended', base .. ':tries',
               base .. ':held', base .. ':place', base .. ':lead', base .. ':away', base .. ':sums',
               base .. ':told')
  else
    jobs = 1 -- none, but it is to be asked again
  end
end
local last = redis.call('ZREVRANGE', base .. ':seen', 0, 0, 'WITHSCORES')[2]
return { tonumber(since or -1), jobs, tonumber(last or 0), now }
