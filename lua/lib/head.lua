-- SPDX-License-Identifier: BSD-2-Clause
-- lib/head.lua - the first due time of a bucket, -1 none.
local function first_due()
  return tonumber(redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2] or -1)
end

-- Returns the same at the end of a script. Wakes other instances if it is now earlier than was.
local function tell_head(was)
  local is = first_due()
  if is >= 0 and (was < 0 or is < was) then
    redis.pcall('PUBLISH', wake_channel, wake_text) -- may be denied: other instances then notice later
  end
  return is
end
