-- SPDX-License-Identifier: BSD-2-Clause
-- lib/lease.lua - which leases a job has had, so that a late word is told from that of an earlier
-- job of its id.
--
--   hash  :ended  job id -> its leases that have ended, and after which it went on. An id of
--                 :ended is one of :tries.
local LEASES_BYTES = 240 -- kept of one job: the last 16 or so

local function lease_note(base, id, lease)
  local leases = redis.call('HGET', base .. ':ended', id)
  leases = (leases and leases .. ' ' or '') .. string.format('%.0f', tonumber(lease))
  while #leases > LEASES_BYTES do
    leases = string.match(leases, ' (.*)')
  end
  redis.call('HSET', base .. ':ended', id, leases)
end

local function lease_has_ended(base, id, lease)
  local ended = redis.call('HGET', base .. ':ended', id)
  return ended and string.find(' ' .. ended .. ' ', ' ' .. lease .. ' ', 1, true) ~= nil
end
