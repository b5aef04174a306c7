-- SPDX-License-Identifier: BSD-2-Clause
-- lib/wake.lua - who else hears of the first due time of a bucket.
--#include lib/head.lua

-- The first due time; other instances are told where it is earlier than it was.
local function tell_head(was, channel, text)
  local is = first_due()
  if is >= 0 and (was < 0 or is < was) then
    redis.pcall('PUBLISH', channel, text) -- may be denied: others then look a little later
  end
  return is
end
