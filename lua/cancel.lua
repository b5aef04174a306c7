-- SPDX-License-Identifier: BSD-2-Clause
-- cancel.lua - removes jobs of one bucket before they are delivered.
--
-- A job in flight stays, because the receiver may already have it. A job of a route is marked as
-- cancelled in :tries: it is not retried and never becomes a dead letter. A repeated run gives the
-- same answer for jobs that the first run removed, else the present state.
local has_far = redis.call('EXISTS', base .. ':far') == 1 -- lib/far.lua

local function cancel(id)
  local code = NOT_THERE
  if has_far and far().take(id) == 1 then
    sums_add('cancelled', 1)
    if owners then
      redis.call('HDEL', owners, id)
    end
    return CANCELLED
  elseif redis.call('ZREM', delay, id) == 1 then
    code = CANCELLED
  elseif redis.call('ZREM', dead, id) == 1 then
    code = CANCELLED_DEAD
  elseif redis.call('ZSCORE', unack, id) then
    if not of_queue then
      mark_cancelled(id)
    end
    return IN_FLIGHT
  elseif of_queue or redis.call('HEXISTS', pool, id) == 0 then
    local till = not of_queue and redis.call('ZSCORE', base .. ':seen', id)
    return till and tonumber(till) > now and REMEMBERED or NOT_THERE
  end
  local was_held = remove(id, 'cancelled', '')
  redis.call('ZREM', base .. ':ttl', id)
  return was_held and CANCELLED or code
end

local DONE = CANCELLED .. CANCELLED_DEAD .. IN_FLIGHT
local codes = {}
local function once(at)
  local name = ARGV[at + NUMBER] ~= '' and asker .. ' ' .. ARGV[at + NUMBER] or nil
  local code = name and late().find(name, DONE) or
    ingest_refuses(ARGV[at + PARTITION], ARGV[at + OFFSET], ARGV[at + ROW])
  if not code then
    code = cancel(ARGV[at])
    if name and string.find(DONE, code, 1, true) then
      late().add(name, code)
    end
  end
  return code
end

local first, stamped = ingest_read(base .. ':ingest', PARTS)
for at = first, #ARGV, ROW + stamped do
  codes[#codes + 1] = once(at)
end
ingest_note(base .. ':ingest', of_queue)
write_notes_for_replicas(of_queue)
return order_made and order_made.reply(codes) or table.concat(codes)
