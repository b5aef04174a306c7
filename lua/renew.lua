-- SPDX-License-Identifier: BSD-2-Clause
-- renew.lua - renews the leases of jobs of one bucket that are still being delivered.
--
--   KEYS[1]  hash  :pool    KEYS[2]  zset  :delay
--   KEYS[3]  zset  :unack   job id, scored by the end of its lease in ms
--   and  zset  :away   lib/order.lua
--   ARGV[1]  now in ms, or '' for the server's clock (tests pass a number)
--   then three per job: id, lease (its present token), the end of the new lease, its next token
--
-- Only for the holder of the lease. The caller chooses the new end, so that it knows the token also
-- after a lost answer. If the job was replaced in flight, and its group waits for the holder, the
-- group waits until the new end. ZREM comes first: see claim.lua.
-- Returns one letter per job:   r renewed   x not this lease's any more
-- A second run answers the same. Cost: O(k log n) for k jobs. Called by store_renew() in
-- bridge/store/store_call.c.
local unack, base = KEYS[3], string.sub(KEYS[1], 1, -6) -- without ":pool"
local ids = {}
for at = 2, #ARGV, 3 do
  ids[#ids + 1] = ARGV[at]
end

local codes, renewed, lost = {}, {}, {}
for i, held in ipairs(redis.call('ZMSCORE', unack, unpack(ids))) do
  local lease, new = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  held = held and tonumber(held)
  codes[i] = (held == lease or held == new) and 'r' or 'x'
  if held == lease then
    renewed[#renewed + 1] = ARGV[3 * i + 1]
    renewed[#renewed + 1] = ids[i]
  elseif held ~= new then
    lost[#lost + 1] = i
  end
end
redis.call('ZREM', unack, '') -- never there
for from = 1, #renewed, 1000 do
  redis.call('ZADD', unack, unpack(renewed, from, math.min(from + 999, #renewed)))
end
if #lost > 0 and redis.call('EXISTS', base .. ':away') == 1 then
  local now = tonumber(ARGV[1])
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
--#include lib/told.lua
  local function find(id, lease)
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', lease, lease)) do
      if string.sub(member, 17) == id then
        return member
      end
    end
  end
  for _, i in ipairs(lost) do
    local lease, new = ARGV[3 * i], ARGV[3 * i + 1]
    local member = find(ids[i], lease)
    if member then
      redis.call('ZADD', base .. ':away', new, member)
      told_add(told_lease(ids[i], new), 'x', now) -- what the holder says still changes nothing
    end
    codes[i] = (member or find(ids[i], new)) and 'r' or 'x'
  end
  told_note(base)
end
return table.concat(codes)
