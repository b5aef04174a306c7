-- SPDX-License-Identifier: BSD-2-Clause
-- finish.lua - ends jobs of a queue in any state.
--
-- An outcome with an expired lease also ends the job if that lease is logged (lib/late.lua). Any
-- other lease belongs to an earlier job of that id (see ack.lua). A second run answers ENDED or
-- NOT_THERE. If it is marked as sent again, and another change ended the job, it answers NOT_AGAIN,
-- ENDED_AGAIN or STAYS_AGAIN; this is certain only for a change with a number.
local codes = {}

-- held: the present lease, or false.
local function take(id, lease, how, held)
  if how == HOW_PENDING and (held or redis.call('ZSCORE', dead, id)) then
    return held and LEFT_FLYING or LEFT_DEAD
  end
  if lease ~= '' and not holds(held, lease) and
    not late().has_ended(id, lease) and not redis.call('ZSCORE', done, id) then
    return is_there(id) and STALE or NOT_THERE
  end
  for _, part in ipairs({ { unack, IN_FLIGHT }, { delay, WAITED }, { dead, WAS_DEAD } }) do
    if redis.call('ZREM', part[1], id) == 1 then
      return part[2]
    end
  end
  if bring_far(id) then -- it ends like a near job
    return WAITED
  elseif of_route then
    return redis.call('HEXISTS', pool, id) == 1 and WAITED or NOT_THERE -- held behind its group
  end
  if how == HOW_ALIVE or how == HOW_PENDING then
    return redis.call('ZSCORE', done, id) and STAYS_ENDED or NOT_THERE
  end
  return redis.call('ZREM', done, id) == 1 and ENDED or NOT_THERE
end

-- Handles the usual case in a few calls for all rows: jobs in flight, ended by their holder, with
-- nothing to keep. Returns their indexes in ARGV.
local function end_held()
  local held, names, places, seen = {}, {}, {}, {}
  for at = FIRST_ROW, #ARGV, ROW do
    local id = ARGV[at]
    if not seen[id] and ARGV[at + LEASE] ~= '' and ARGV[at + REASON] == 'acked' and keep_ms == 0 and not of_route then
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
      if holds(lease, ARGV[at + LEASE]) then
        mine[#mine + 1], held[at] = ARGV[at], true
      end
    end
    if #mine > 0 then
      redis.call('ZREM', unack, unpack(mine))
      redis.call('ZREM', ttl, unpack(mine))
      if redis.call('EXISTS', base .. ':ended') == 1 then
        for i, ended in ipairs(redis.call('HMGET', base .. ':ended', unpack(mine))) do
          outdate(mine[i], '', false, ended)
        end
      end
      sums_add(SUM.acked, forget(unpack(mine)))
    end
  end
  return held
end

local AGAIN = { [NOT_THERE] = NOT_AGAIN, [ENDED] = ENDED_AGAIN, [STAYS_ENDED] = STAYS_AGAIN }
local LEFT = { [WAITED] = true, [IN_FLIGHT] = true, [WAS_DEAD] = true }
local DONE = WAITED .. IN_FLIGHT .. WAS_DEAD .. ENDED

local function end_one(id, lease, reason, how)
  local again, number
  how, again, number = read_how(how)
  local name = number and wake_text .. ' ' .. number .. ' '
  local before = again and name and late().find(name, DONE)
  if before then
    return before == ENDED and ENDED_AGAIN or before
  end
  local attempts, since = tried(id)
  local held = redis.call('ZSCORE', unack, id)
  local ended = since and redis.call('HGET', base .. ':ended', id) or false
  local code = take(id, lease, how, held)
  if LEFT[code] and (lease ~= '' or reason ~= 'acked') then
    outdate(id, lease, held, ended) -- else leases are not what acks here go by
  end
  if LEFT[code] or code == ENDED then
    redis.call('ZREM', ttl, id)
    if of_route then
      sums_add(SUM[reason], forget(id))
      leave_group(id, false, held)
    elseif code == ENDED and (how == HOW_FORGET or keep_ms == 0) then
      forget(id) -- it was counted when it ended
    elseif how == HOW_FORGET then
      sums_add(SUM[reason], forget(id))
    else
      sums_add(SUM[reason], code == ENDED and -1 or 0)
      finish(id, attempts + (code == IN_FLIGHT and 1 or 0), since, reason)
    end
  end
  if name and string.find(DONE, code, 1, true) then
    late().add(name, code)
  end
  if again and AGAIN[code] and
    (name or (lease ~= '' and late().find(late().name(id, lease), VOID))) then
    return AGAIN[code]
  end
  return code
end

local held = end_held()
for at = FIRST_ROW, #ARGV, ROW do
  codes[#codes + 1] = held[at] and IN_FLIGHT or end_one(ARGV[at], ARGV[at + LEASE], ARGV[at + REASON], ARGV[at + HOW])
end
return reply({ settle_head(), table.concat(codes) })
