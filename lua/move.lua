-- SPDX-License-Identifier: BSD-2-Clause
-- move.lua - takes jobs of the first slot of due time (lib/far.lua) to where they wait for their
-- time, shortly before it comes.
--
-- Nothing is taken before its time: then moved and taken are 0. Any number of callers may do it.
-- What is read is read before the first write: an error loses nothing. Cost: O(k log n) for k entries.
--#include lib/bucket.lua
--#include lib/now.lua
--#include lib/head.lua
--#include lib/order.lua
--#include lib/far.lua
--#include lib/far_move.lua
local was, start = first_due(), far().first()
local moved, taken, left = 0, 0, 0
if start >= 0 and start - now <= early_ms then
  moved, taken, left = far_moves().move(start, max)
end
return { moved, taken, left, far().first(), tell_head(was), now }
