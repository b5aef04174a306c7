-- SPDX-License-Identifier: BSD-2-Clause
-- touch.lua - renews the lease of one job that a consumer holds.
settle_head()
if not held_by(id, lease) then
  return reply({ is_there(id) and STALE or NOT_THERE, 0 })
end
local at = claim_time(soon)
redis.call('ZREM', unack, id)
claim_note(at)
redis.call('ZADD', unack, at + lease_ms, id)
return reply({ TOUCHED, at + lease_ms })
