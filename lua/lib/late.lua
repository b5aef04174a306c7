-- SPDX-License-Identifier: BSD-2-Clause
-- lib/late.lua - the log of late outcomes: what a repeated or late outcome must know.
--
--   zset  :outcomes  name of a change .. letter of its answer, scored by the time in ms: changes whose answer may be
--                    lost, because a repeat would find its own work done. VOID: an outcome that is ignored
--   hash  :ended     job id -> its expired leases after which the job stayed, which no earlier job of the id had.
--                    Every id of :ended is in :tries
--
-- A bucket keeps the last OUTCOMES_MAX entries: more than all instances can have in flight.
local VOID = 'x' -- letter of an outcome that is ignored
local LEASES_BYTES = 240 -- limit per job: about the last 16 leases

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
  now = now or select(2, clock())
  local OUTCOMES_MAX = 10000
  local OUTCOMES_MS = 10 * 60 * 1000
  local outcomes_key = base .. ':outcomes'
  local self, rows, added = {}, {}, {} -- rows, added: entries of this call

  -- Returns the letter (one of letters) recorded for the change, or nil: it was not executed.
  function self.find(name, letters)
    local names = {}
    for i = 1, #letters do
      names[i] = name .. string.sub(letters, i, i)
    end
    for i, when in ipairs(redis.call('ZMSCORE', outcomes_key, unpack(names))) do
      if when or added[names[i]] then
        return string.sub(letters, i, i)
      end
    end
  end

  function self.add(name, letter)
    push(rows, now, name .. letter)
    added[name .. letter] = true
  end

  -- The name of the outcome of a lease. A lease has only one outcome.
  function self.name(id, lease)
    return lease .. ' ' .. id .. ' '
  end

  -- See outdate() below.
  function self.outdate(id, mine, held, ended)
    for lease in string.gmatch((ended or '') .. ' ' .. (held or ''), '%d+') do
      if lease ~= mine then
        self.add(self.name(id, lease), VOID)
      end
    end
  end

  -- Returns the answer to an outcome that changes nothing. Its recorded letter (one of letters): the first run did
  -- this. STALE_BEFORE: the outcome was ignored before, or another outcome ended the job. Else STALE. again: the
  -- change was sent before, so it may find its own work, unless the lease expired: its own work would have ended
  -- the lease.
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
      redis.call('ZREM', outcomes_key, '') -- first write: see lib/bucket.lua
      call_in_slices('ZADD', outcomes_key, rows)
      redis.call('ZREMRANGEBYRANK', outcomes_key, 0, -1 - OUTCOMES_MAX)
      redis.call('PEXPIRE', outcomes_key, OUTCOMES_MS)
      rows = {}
    end
  end
  late_made = self
  return self
end

-- Invalidates every other lease of this job. mine: the lease that ends the job, '' none; held: the
-- present lease, or false; ended: the expired leases, nil: not read yet.
local function outdate(id, mine, held, ended)
  if ended == nil then
    ended = redis.call('HGET', base .. ':ended', id)
  end
  if ended or held then
    late().outdate(id, mine, held, ended)
  end
end
