-- SPDX-License-Identifier: BSD-2-Clause
-- move.lua - moves jobs of the first slot of far jobs (lib/far.lua) to the normal indexes, shortly
-- before they are due.
--
-- If the slot may not be moved yet, moved and taken are 0. Any number of instances may call it.
local was, start = first_score(delay), far().first()
local moved, taken, left = 0, 0, 0
if start >= 0 and start - now <= early_ms then
  moved, taken, left = far_moves().move(start, max)
end
return { moved, taken, left, far().first(), tell_head(was), now }
