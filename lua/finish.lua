-- SPDX-License-Identifier: BSD-2-Clause
-- finish.lua - ends jobs of a queue, wherever they stand.
--
--   KEYS, ARGV[1..7]  lib/queue.lua
--   then four per job: id, lease (the token of the delivery; '' whoever has it), reason
--   ('acked', 'deleted'), '' or 'a' only if it has not ended yet, 'p' only if it is pending or 'f' forget
--   it at once; N, A, P, F: the same, sent before, and its answer was lost. Behind it may stand the
--   number of this change, with ARGV[6] its name (lib/told.lua), and '' is n then
--
-- With a lease a delivered job may also be ended after it came back: that lease is then noted
-- (lib/lease.lua). Any other is one of an earlier job of that id (see ack.lua).
-- Returns one letter per job, where it stood:   w waiting or ready   f in flight   d dead
--   e ended before   E ended before and left so   x not this lease's   n not there
--   h left in flight   k left dead
-- A second run answers e or n. Sent again it is told m, M, N for n, e, E where it was not this very word
-- that ended the job (lib/told.lua): of one with a number that is known for sure. Cost: O(k log n) for k jobs. Called by store_finish() in
-- bridge/store/store_queue.c.
--#include lib/lease.lua
--#include lib/sums.lua
--#include lib/queue.lua
--#include lib/order.lua
local of_route = ARGV[2] == ''
local codes = {}

-- held: the lease of who has it now, or false.
local function take(id, lease, how, held)
  if how == 'p' and (held or redis.call('ZSCORE', dead, id)) then
    return held and 'h' or 'k'
  end
  if lease ~= '' and tonumber(held or nil) ~= tonumber(lease) and
    not lease_has_ended(keys, id, lease) and not redis.call('ZSCORE', done, id) then
    return (redis.call('HEXISTS', pool, id) == 1 or is_far(id)) and 'x' or 'n'
  end
  for _, part in ipairs({ { unack, 'f' }, { delay, 'w' }, { dead, 'd' } }) do
    if redis.call('ZREM', part[1], id) == 1 then
      return part[2]
    end
  end
  if bring_far(id) then -- it ends as one that is near
    return 'w'
  elseif of_route then
    return redis.call('HEXISTS', pool, id) == 1 and 'w' or 'n' -- behind others of its group
  end
  if how == 'a' or how == 'p' then
    return redis.call('ZSCORE', done, id) and 'E' or 'n'
  end
  return redis.call('ZREM', done, id) == 1 and 'e' or 'n'
end

-- The usual case, in a few calls for all: in flight, ended by whoever has them, and nothing of them
-- is kept. Gives where in ARGV they stand.
local function end_held()
  local held, names, places, seen = {}, {}, {}, {}
  for at = 8, #ARGV, 4 do
    local id = ARGV[at]
    if not seen[id] and ARGV[at + 1] ~= '' and ARGV[at + 2] == 'acked' and keep_ms == 0 and not of_route then
      names[#names + 1] = id
      places[#places + 1] = at
    end
    seen[id] = true
  end
  for from = 1, #names, 1000 do
    local mine = {}
    local leases = redis.call('ZMSCORE', unack, unpack(names, from, math.min(from + 999, #names)))
    for i, lease in ipairs(leases) do
      local at = places[from + i - 1]
      if tonumber(lease or nil) == tonumber(ARGV[at + 1]) then
        mine[#mine + 1], held[at] = ARGV[at], true
      end
    end
    if #mine > 0 then
      redis.call('ZREM', unack, unpack(mine))
      redis.call('ZREM', ttl, unpack(mine))
      if redis.call('EXISTS', keys .. ':ended') == 1 then
        for i, ended in ipairs(redis.call('HMGET', keys .. ':ended', unpack(mine))) do
          outdate(mine[i], '', ended)
        end
      end
      sums_add(SUM.acked, forget(unpack(mine)))
    end
  end
  return held
end

local AGAIN = { n = 'm', e = 'M', E = 'N' }

local function end_one(id, lease, reason, how)
  local name = #how > 1 and ARGV[6] .. ' ' .. string.sub(how, 2) .. ' ' or nil
  how = string.sub(how, 1, 1)
  local again = string.find(how, '%u')
  how = string.lower(how)
  how = how == 'n' and '' or how
  local before = again and name and words().find(keys, name, 'wfde')
  if before then
    return before == 'e' and AGAIN.e or before
  end
  local attempts, since = tried(id)
  local held = redis.call('ZSCORE', unack, id)
  local ended = since and redis.call('HGET', keys .. ':ended', id)
  local code = take(id, lease, how, held)
  if (code == 'w' or code == 'f' or code == 'd') and (lease ~= '' or reason ~= 'acked') then
    outdate(id, lease, ended, held) -- else leases are not what acks here go by
  end
  if code == 'w' or code == 'f' or code == 'd' or code == 'e' then
    redis.call('ZREM', ttl, id)
    if of_route then
      sums_add(SUM[reason], select(2, order_gone(id, of_route and held or nil)))
    elseif code == 'e' and (how == 'f' or keep_ms == 0) then
      forget(id) -- it was counted when it ended
    elseif how == 'f' then
      sums_add(SUM[reason], forget(id))
    else
      sums_add(SUM[reason], code == 'e' and -1 or 0)
      finish(id, attempts + (code == 'f' and 1 or 0), since, reason)
    end
  end
  if name and string.find('wfde', code, 1, true) then
    words().add(name, code, now)
  end
  if again and AGAIN[code] and
    (name or (lease ~= '' and words().find(keys, words().lease(id, lease), 'x'))) then
    return AGAIN[code]
  end
  return code
end

local held = end_held()
for at = 8, #ARGV, 4 do
  codes[#codes + 1] = held[at] and 'f' or end_one(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end
return { head(), table.concat(codes), expired, timed_out, exhausted, slot }
