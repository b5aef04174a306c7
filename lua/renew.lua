-- SPDX-License-Identifier: BSD-2-Clause
-- renew.lua - renews the leases of jobs of one bucket that are still being delivered.
--
-- Only for the holder of the lease. The caller chooses the new end, so that it knows the token also
-- after a lost answer. If the job was replaced in flight, and its group waits for the holder, the
-- group waits until the new end (:away of lib/order.lua). A second run answers the same.
--#include lib/bucket.lua
--#include lib/late.lua
local ids = {}
for at = FIRST_ROW, #ARGV, ROW do
  ids[#ids + 1] = ARGV[at]
end

local function row(i)
  local at = FIRST_ROW + (i - 1) * ROW
  return ARGV[at + LEASE], ARGV[at + NEW_LEASE]
end

local codes, renewed, lost = {}, {}, {}
for i, held in ipairs(redis.call('ZMSCORE', unack, unpack(ids))) do
  local lease, new = row(i)
  held = tonumber(held or nil)
  codes[i] = (held == tonumber(lease) or held == tonumber(new)) and RENEWED or STALE
  if held == tonumber(lease) then
    renewed[#renewed + 1] = new
    renewed[#renewed + 1] = ids[i]
  elseif held ~= tonumber(new) then
    lost[#lost + 1] = i
  end
end
redis.call('ZREM', unack, '') -- never there
call_in_slices('ZADD', unack, renewed)

local function find_away(id, lease)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', base .. ':away', lease, lease)) do
    if string.sub(member, 17) == id then
      return member
    end
  end
end
if #lost > 0 and redis.call('EXISTS', base .. ':away') == 1 then
  for _, i in ipairs(lost) do
    local lease, new = row(i)
    local member = find_away(ids[i], lease)
    if member then
      redis.call('ZADD', base .. ':away', new, member)
      late().add(late().name(ids[i], new), VOID) -- what the holder reports still changes nothing
    end
    codes[i] = (member or find_away(ids[i], new)) and RENEWED or STALE
  end
  if late_made then
    late_made.write()
  end
end
return table.concat(codes)
