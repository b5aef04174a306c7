-- SPDX-License-Identifier: BSD-2-Clause
-- look.lua - shows one job of a queue, where it stands and until when.
--
--   KEYS, ARGV[1..7]  lib/queue.lua
--   ARGV[8]  'i' the job named by ARGV[9]   'r' the next to be handed out   'd' the oldest dead
--   ARGV[9]  id, or ''
--
-- Returns {state, id, at, encoded job, tries, expires or -1, now}; state: n not there
--   w waiting (at: due)   r due   f in flight (at: end of the lease)   d dead (at: burial)
--   e ended (at: when it is forgotten)
-- Called by store_look() in bridge/store/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
head()
local id = ARGV[9]
if ARGV[8] == 'r' then
  id = redis.call('ZRANGEBYSCORE', delay, '-inf', now_due, 'LIMIT', 0, 1)[1]
elseif ARGV[8] == 'd' then
  id = redis.call('ZRANGE', dead, 0, 0)[1]
end
local record = id and redis.call('HGET', pool, id)
if id and not record then
  local due, body, expires = find_far(id)
  if due then
    return { 'w', id, in_ms(due), body, '', expires or -1, now, expired, timed_out, exhausted, slot }
  end
elseif record then
  for _, part in ipairs({ { delay, 'w' }, { unack, 'f' }, { dead, 'd' }, { done, 'e' } }) do
    local at = tonumber(redis.call('ZSCORE', part[1], id) or nil)
    if at then
      local state = part[2]
      if state == 'w' then
        state, at = at <= now_due and 'r' or 'w', in_ms(at)
      end
      return { state, id, at, record, redis.call('HGET', tries, id) or '',
               tonumber(redis.call('ZSCORE', ttl, id) or nil) or -1, now, expired, timed_out, exhausted, slot }
    end
  end
end
return { 'n', '', -1, '', '', -1, now, expired, timed_out, exhausted, slot }
