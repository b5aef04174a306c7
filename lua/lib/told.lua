-- SPDX-License-Identifier: BSD-2-Clause
-- lib/told.lua - what was answered to a change that may be sent once more, since its answer was
-- lost, and that would then find its own work done: a cancel, a replacement, a run that was
-- cancelled or kept. And x: a word about a delivery that did not count, or can't any more.
--
--   zset  :told   name of the change .. letter of the answer, scored by when in ms
--
-- Kept are the last TOLD_MAX of a bucket: more than all instances have on their way.
local TOLD_MAX, TOLD_MS = 10000, 10 * 60 * 1000
local told_rows, told_now = {}, {} -- what this call adds

-- The letter, one of letters, or nil: it was not carried out before.
local function told_find(base, name, letters)
  local names = {}
  for i = 1, #letters do
    names[i] = name .. string.sub(letters, i, i)
  end
  for i, when in ipairs(redis.call('ZMSCORE', base .. ':told', unpack(names))) do
    if when or told_now[names[i]] then
      return string.sub(letters, i, i)
    end
  end
end

-- The name of what the holder of a lease has to say: he says it once.
local function told_lease(id, lease)
  return lease .. ' ' .. id .. ' '
end

local function told_add(name, letter, now)
  told_rows[#told_rows + 1] = now
  told_rows[#told_rows + 1] = name .. letter
  told_now[name .. letter] = true
end

-- Nobody else's word about this job counts any more. mine: the lease of who ends it, '' nobody; ended,
-- held: the leases of who had it, and of who has it; nil or false: none.
local function told_outdate(id, mine, now, ended, held)
  for lease in string.gmatch((ended or '') .. ' ' .. (held or ''), '%d+') do
    if lease ~= mine then
      told_add(told_lease(id, lease), 'x', now)
    end
  end
end

-- What he is answered whose word about a delivery changes nothing: the letter, one of letters, of what
-- it did before; y: it did not count then either, or another's has ended the job; else x. again: it
-- was sent before, so that x may be because of itself; but not where its lease has ended, which it would
-- not have left to end.
local function told_stale(base, id, lease, letters, now, again)
  local name = told_lease(id, lease)
  local letter = told_find(base, name, letters .. 'x')
  local ended = not letter and again and redis.call('HGET', base .. ':ended', id)
  if ended and string.find(' ' .. ended .. ' ', ' ' .. lease .. ' ', 1, true) then
    letter = 'x'
  elseif not letter and not again then
    told_add(name, 'x', now)
  end
  return not letter and 'x' or letter == 'x' and 'y' or letter
end

local function told_note(base)
  if #told_rows > 0 then
    redis.call('ZREM', base .. ':told', '') -- it comes first: see claim.lua
    for from = 1, #told_rows, 1000 do
      redis.call('ZADD', base .. ':told', unpack(told_rows, from, math.min(from + 999, #told_rows)))
    end
    redis.call('ZREMRANGEBYRANK', base .. ':told', 0, -1 - TOLD_MAX)
    redis.call('PEXPIRE', base .. ':told', TOLD_MS)
  end
end
