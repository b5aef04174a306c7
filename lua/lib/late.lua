-- SPDX-License-Identifier: BSD-2-Clause
-- lib/late.lua - the log of late outcomes: what a repeated or late outcome must know.
--
--   zset  :told   name of a change .. letter of its answer, scored by when in ms: of a change that may
--                 be sent once more, since its answer was lost, and would then find its own work done. And
--                 VOID: an outcome of a delivery that did not count, or can't any more
--   hash  :ended  job id -> its leases that have ended, and after which it went on; so an outcome that
--                 comes late is told from that of an earlier job of its id. An id of :ended is one of :tries
--
-- Kept are the last TOLD_MAX of a bucket: more than all instances have on their way.
local VOID = 'x' -- the letter of an outcome that did not count, or can't any more
local LEASES_BYTES = 240 -- kept of one job: the last 16 or so

local function note_lease(id, lease)
  local leases = redis.call('HGET', base .. ':ended', id)
  leases = (leases and leases .. ' ' or '') .. string.format('%.0f', tonumber(lease))
  while #leases > LEASES_BYTES do
    leases = string.match(leases, ' (.*)')
  end
  redis.call('HSET', base .. ':ended', id, leases)
end

local function late()
  if late_made then
    return late_made
  end
  now = now or math.floor(clock_us() / 1000)
  local TOLD_MAX = 10000
  local TOLD_MS = 10 * 60 * 1000
  local told_key = base .. ':told'
  local self, rows, added = {}, {}, {} -- what this call adds

  -- The letter, one of letters, or nil: it was not carried out before.
  function self.find(name, letters)
    local names = {}
    for i = 1, #letters do
      names[i] = name .. string.sub(letters, i, i)
    end
    for i, when in ipairs(redis.call('ZMSCORE', told_key, unpack(names))) do
      if when or added[names[i]] then
        return string.sub(letters, i, i)
      end
    end
  end

  function self.add(name, letter)
    rows[#rows + 1] = now
    rows[#rows + 1] = name .. letter
    added[name .. letter] = true
  end

  -- The name of what the holder of a lease reports: once.
  function self.name(id, lease)
    return lease .. ' ' .. id .. ' '
  end

  -- As outdate() below.
  function self.outdate(id, mine, held, ended)
    if ended == nil then
      ended = redis.call('HGET', base .. ':ended', id)
    end
    for lease in string.gmatch((ended or '') .. ' ' .. (held or ''), '%d+') do
      if lease ~= mine then
        self.add(self.name(id, lease), VOID)
      end
    end
  end

  -- The answer to an outcome that changes nothing: the letter, one of letters, of what it did before;
  -- STALE_BEFORE: it did not count then either, or another's has ended the job; else STALE. again: it was
  -- sent before, so that STALE may be because of itself; but not where its lease has ended, which it would
  -- not have left to end.
  function self.stale(id, lease, letters, again)
    local name = self.name(id, lease)
    local letter = self.find(name, letters .. VOID)
    if not letter and again and self.has_ended(id, lease) then
      letter = VOID
    elseif not letter and not again then
      self.add(name, VOID)
    end
    return not letter and STALE or letter == VOID and STALE_BEFORE or letter
  end

  function self.has_ended(id, lease)
    local leases = redis.call('HGET', base .. ':ended', id)
    return leases and string.find(' ' .. leases .. ' ', ' ' .. lease .. ' ', 1, true) ~= nil
  end

  function self.write()
    if #rows > 0 then
      redis.call('ZREM', told_key, '') -- it comes first
      call_in_slices('ZADD', told_key, rows)
      redis.call('ZREMRANGEBYRANK', told_key, 0, -1 - TOLD_MAX)
      redis.call('PEXPIRE', told_key, TOLD_MS)
      rows = {}
    end
  end
  late_made = self
  return self
end

-- No other outcome of this job counts any more. mine: the lease of who ends it, '' nobody; held: the
-- lease of who has it, or false; ended: those of who had it, nil: not read yet.
local function outdate(id, mine, held, ended)
  if ended == nil then
    ended = redis.call('HGET', base .. ':ended', id)
  end
  if ended or held then
    late().outdate(id, mine, held, ended)
  end
end
