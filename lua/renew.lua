-- SPDX-License-Identifier: BSD-2-Clause
-- renew.lua - renews the leases of jobs of one bucket that are still being delivered.
--
-- Only the holder may renew a lease. The caller chooses the new end, so it knows the token also after a lost
-- answer. If the job was replaced in flight and its group waits for the holder, the group waits until the new end
-- (:away of lib/order.lua). A second run answers the same.
local ids = {}
for at = FIRST_ROW, #ARGV, ROW do
  ids[#ids + 1] = ARGV[at]
end

local codes, renewed, lost = {}, {}, {} -- lost: of each, the id, its lease and the new one
for i, held in ipairs(redis.call('ZMSCORE', unack, unpack(ids))) do
  local at = FIRST_ROW + (i - 1) * ROW
  local lease, new = tonumber(ARGV[at + LEASE]), tonumber(ARGV[at + NEW_LEASE])
  held = held and tonumber(held)
  codes[i] = (held == lease or held == new) and RENEWED or STALE
  if held == lease then
    push(renewed, ARGV[at + NEW_LEASE], ids[i])
  elseif held ~= new then
    lost[#lost + 1] = { i, ids[i], ARGV[at + LEASE], ARGV[at + NEW_LEASE] }
  end
end
redis.call('ZREM', unack, '') -- never there
call_in_slices('ZADD', unack, renewed)

if #lost > 0 and redis.call('EXISTS', base .. ':away') == 1 then
  for _, row in ipairs(lost) do
    local i, id, lease, new = unpack(row)
    local member = order().find_away(id, lease)
    if member then
      redis.call('ZADD', base .. ':away', new, member)
      late().add(late().name(id, new), VOID) -- what the holder reports still changes nothing
    end
    codes[i] = (member or order().find_away(id, new)) and RENEWED or STALE
  end
  if late_made then
    late_made.write()
  end
end
return table.concat(codes)
