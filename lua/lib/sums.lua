-- SPDX-License-Identifier: BSD-2-Clause
-- lib/sums.lua - totals of the jobs that entered and left a bucket, and the common end of all scripts that change it.
--
--   hash  :sums   stored     jobs added to :pool, and each run that is kept as a job of its own
--                 delivered, cancelled, expired, exhausted (of a queue, out of tries), replaced, dropped (deleted by an
--                            operator, or a second copy of a failed run): jobs that left :pool, or ended in a queue
--                 base       jobs that lua/audit.lua found and that no total contains
--                 repeated   next runs: the job stays in :pool
--                 epoch      instances that use an earlier number of buckets must not add jobs, see fence.lua
--                 claim, claim:NAME   the last claim of all and of NAME, see lib/claim.lua
--
-- Invariant: base + stored = jobs of :pool that have not ended (are not in :done) + far jobs (lib/far.lua) + all jobs
-- that left. A script counts only its own changes, by one HINCRBY per kind, after its other writes.
local SUMS_KEEP_MS = 24 * 3600 * 1000
local sums = {} -- base of a bucket -> kind -> number

-- keys: the base of another queue of the sink; nil: this bucket.
local function sums_add(kind, n, keys)
  local of = sums[keys or base] or {}
  of[kind], sums[keys or base] = (of[kind] or 0) + n, of
end

-- Emptied slots may exist without far jobs.
local function has_jobs(keys)
  return redis.call('EXISTS', keys .. ':pool') == 1 or tonumber(redis.call('HGET', keys .. ':slots', '#') or 0) > 0
end

-- Ends a script that changes jobs. Returns whether it changed a total. The sums of a queue expire a day after its last
-- job, because the number of queues is unlimited.
local function write_notes(of_queue)
  local wrote = false
  if late_made then
    late_made.write()
  end
  for keys, counts in pairs(sums) do
    local any_left = false
    for kind, n in pairs(counts) do
      if n ~= 0 then
        redis.call('HINCRBY', keys .. ':sums', kind, n)
        any_left = any_left or kind ~= 'stored'
        wrote = true
      end
    end
    if any_left and of_queue and not has_jobs(keys) then
      redis.call('PEXPIRE', keys .. ':sums', SUMS_KEEP_MS)
    end
  end
  return wrote
end

-- Like write_notes(), for changes whose answers wait for replicas (bridge/store/store_wait.c). If a change is sent
-- again over a new connection, its script may find everything done. Since Redis 7.2, WAIT covers only what its own
-- connection wrote. So the script then writes something. Redis executes PEXPIRE and PERSIST also when it is out of
-- memory.
local function write_notes_for_replicas(of_queue)
  if write_notes(of_queue) then
    return
  end
  local key = base .. ':sums'
  local left_ms = redis.call('PTTL', key)
  redis.call('PEXPIRE', key, left_ms > 0 and left_ms or SUMS_KEEP_MS)
  if left_ms == -1 then
    redis.call('PERSIST', key)
  end
end

-- Returns the first due time of the bucket at the end of a script. Wakes other instances if it is
-- now earlier than was.
local function tell_head(was)
  local is = first_score(delay)
  if is >= 0 and (was < 0 or is < was) then
    redis.pcall('PUBLISH', wake_channel, wake_text) -- may be denied: other instances then notice later
  end
  return is
end
