-- SPDX-License-Identifier: BSD-2-Clause
-- look.lua - shows one job of a bucket with its state and the time at which the state ends.
settle_head()
if which == WHICH_READY then
  id = redis.call('ZRANGEBYSCORE', delay, '-inf', now_due, 'LIMIT', 0, 1)[1]
elseif which == WHICH_DEAD then
  id = redis.call('ZRANGE', dead, 0, 0)[1]
end

local PARTS = { { delay, WAITS }, { unack, IN_FLIGHT }, { dead, DEAD }, { done, ENDED } }
local function stands()
  for _, part in ipairs(PARTS) do
    local at = tonumber(redis.call('ZSCORE', part[1], id) or nil)
    if at and part[1] == delay then
      return at <= now_due and READY or WAITS, in_ms(at)
    elseif at then
      return part[2], at
    end
  end
  local place = redis.call('HGET', base .. ':place', id)
  if place and redis.call('ZSCORE', base .. ':held', place .. id) then
    return WAITS, order().due(place)
  end
end

local record, state, at, expires = id and redis.call('HGET', pool, id), nil, nil, nil
local note = ''
if record then
  state, at = stands()
  note = redis.call('HGET', tries, id) or ''
  expires = tonumber(redis.call('ZSCORE', ttl, id) or nil)
elseif id then
  at, record, expires = find_far(id)
  state, at = at and WAITS, at and in_ms(at)
end
if not state then
  return reply({ NOT_THERE, '', -1, '', '', -1, now })
end
return reply({ state, id, at, record, note, expires or -1, now })
