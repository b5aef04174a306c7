-- SPDX-License-Identifier: BSD-2-Clause
-- release.lua - returns jobs from consumers to their queue. Repeatable with a lease.
local codes = {}
for at = FIRST_ROW, #ARGV, ROW do
  local id, lease = ARGV[at], ARGV[at + LEASE]
  local due = tonumber(ARGV[at + DUE_US]) or now_us + #codes -- in the order of the call
  local held = held_by(id, lease)
  local code = held and READY or is_there(id) and STALE or NOT_THERE
  if held and ARGV[at + HOW] == HOW_UNCOUNTED then
    redis.call('ZREM', unack, id)
    redis.call('ZADD', delay, due, id)
  elseif held and not put_back(id, held, due, 'released') then
    code = EXHAUSTED
  end
  codes[#codes + 1] = code
end
return reply({ settle_head(), table.concat(codes) })
