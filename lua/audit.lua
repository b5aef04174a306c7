-- SPDX-License-Identifier: BSD-2-Clause
-- audit.lua - checks one part of a bucket in use for contradictions. Each finding is judged within
-- one call, so concurrent changes cause no false findings.
--
-- Kinds of findings:
--   no-index  a job in no index. Repair: it goes to :delay, due now
--   twice     a job in several indexes. Repair: it stays in the one that delivers the stored job
--             (:delay before :held, :unack, :error, :done), because a lease may be an earlier job's
--   no-body   an id without a body. Repair: the id is removed
--   orphan    data of a job that is missing, or not in the state for it. Repair: it is removed
--   order     a group with held jobs but no front job, or with several. Repair: order is restored
--   sums      the sums disagree with the bucket (lib/sums.lua); id: the difference. Repair: adjusted
--   counts    number of indexed jobs minus jobs of :pool, where no finding above explains it; or
--             counted far jobs minus existing ones. In buckets with more slots than one step reads
--             (lib/far_audit.lua) this is judged only if no far job changed meanwhile
-- The caller checks first the indexes, then the other keys, then :pool, and last the sums. Repairs
-- rely on this order. Cost: O(k log n) for k examined entries.
--#include lib/bucket.lua
--#include lib/now.lua
--#include lib/head.lua
--#include lib/order.lua
--#include lib/far.lua
--#include lib/far_audit.lua
-- Returns for each id the indexes that contain it, with the member.
local function standing(ids)
  local at = {}
  for _, name in ipairs(INDEXES) do
    local members = ids
    local there = redis.call('EXISTS', key(name)) == 1
    if name == 'held' and there then
      members = {}
      for i, place in ipairs(redis.call('HMGET', key('place'), unpack(ids))) do
        members[i] = (place or '') .. ids[i]
      end
    end
    for i, score in ipairs(there and redis.call('ZMSCORE', key(name), unpack(members)) or {}) do
      if score then
        at[i] = at[i] or {}
        at[i][#at[i] + 1] = { name = name, member = members[i] }
      end
    end
  end
  return at
end

local function look_at_pool(rows)
  for from = 1, #rows, 2 * SLICE do
    local ids = {}
    for i = from, math.min(from + 2 * SLICE - 1, #rows), 2 do
      ids[#ids + 1] = rows[i]
      out[3] = out[3] + #rows[i + 1]
    end
    local at = standing(ids)
    for i, id in ipairs(ids) do
      if not at[i] then
        found('no-index', id)
        if repair then
          order().place(id, of_queue and now_us or now)
        end
      elseif #at[i] > 1 then
        found('twice', id)
        for k = 2, repair and #at[i] or 0 do
          redis.call('ZREM', key(at[i][k].name), at[i][k].member)
        end
      end
    end
  end
end

-- Deletes what is left of a job without a body. With global ids its id may be that of a job in
-- another queue, whose entry stays.
local function forget_rests(id)
  local owner = owners and redis.call('HGET', owners, id)
  forget(id)
  if owner and owner ~= base then
    redis.call('HSET', owners, id, owner)
  end
end

local function look_at_index(rows)
  for i = 1, #rows, 2 do
    local id = rows[i]
    if not has_body(id) then
      found('no-body', id)
      if repair then
        redis.call('ZREM', key(part), id)
        redis.call('ZREM', key('ttl'), id)
        forget_rests(id)
        leave_group(id)
      end
    end
  end
end

local function look_at_held(rows)
  for i = 1, #rows, 2 do
    local place, id = string.sub(rows[i], 1, PLACE_BYTES), string.sub(rows[i], PLACE_BYTES + 1)
    local group = string.sub(place, 1, 16)
    if not has_body(id) then
      found('no-body', id)
      if repair then
        forget_rests(id)
        leave_group(id)
        redis.call('ZREM', key('held'), rows[i])
      end
    elseif redis.call('HGET', key('place'), id) ~= place then
      found('order', id) -- not held at its own place; look_at_pool() repairs the job
      if repair then
        redis.call('ZREM', key('held'), rows[i])
      end
    elseif redis.call('HEXISTS', key('lead'), group) == 0 then
      found('order', id)
      if repair then
        order().follow(group)
      end
    end
  end
end

local function look_at_place(rows)
  for i = 1, #rows, 2 do
    local id, group = rows[i], string.sub(rows[i + 1], 1, 16)
    if not has_body(id) then
      found('orphan', id)
      if repair then
        leave_group(id)
      end
    elseif redis.call('HGET', key('lead'), group) ~= id and
      (score_of('delay', id) or score_of('unack', id)) then
      found('order', id) -- a second front job: remove it from the group
      if repair then
        redis.call('HDEL', key('place'), id)
      end
    end
  end
end

-- Returns the groups in :away: few, and not for long.
local function waiting_groups()
  local groups = {}
  for _, member in ipairs(redis.call('ZRANGE', key('away'), 0, -1)) do
    groups[string.sub(member, 1, 16)] = true
  end
  return groups
end

local function look_at_away(rows)
  for i = 1, #rows, 2 do
    if redis.call('HGET', key('lead'), string.sub(rows[i], 1, 16)) ~= AWAY then
      found('orphan', string.sub(rows[i], 17))
      if repair then
        redis.call('ZREM', key('away'), rows[i])
      end
    end
  end
end

local function look_at_lead(rows)
  local waiting
  local function is_away(group, id)
    waiting = waiting or id == AWAY and waiting_groups()
    return id == AWAY and waiting[group]
  end
  for i = 1, #rows, 2 do
    local group, id = rows[i], rows[i + 1]
    local place = redis.call('HGET', key('place'), id)
    if group ~= '#' and not is_away(group, id) and not (place and string.sub(place, 1, 16) == group and
      (score_of('delay', id) or score_of('unack', id))) then
      found('order', id)
      if repair then
        order().follow(group)
      end
    end
  end
end

-- Returns a check for a hash or a set whose entries require is_there(id).
local function look_for(is_there, remove)
  return function(rows)
    for i = 1, #rows, 2 do
      if not is_there(rows[i]) then
        found('orphan', rows[i])
        if repair then
          redis.call(remove, key(part), rows[i])
        end
      end
    end
  end
end

local function is_alive(id)
  return score_of('delay', id) or score_of('unack', id)
end

local function is_tried(id)
  return redis.call('HEXISTS', key('tries'), id) == 1
end

-- Returns the jobs in the bucket minus those in its sums; negative: jobs are missing.
local function sums_gap()
  local counts = redis.call('HMGET', base .. ':sums', 'base', 'stored', 'delivered', 'cancelled', 'expired',
                            'exhausted', 'replaced', 'dropped')
  local known = 0
  for i = 1, 8 do
    local n = tonumber(counts[i] or 0) or 0
    known = known + (i <= 2 and n or -n)
  end
  local far = tonumber(redis.call('HGET', base .. ':slots', '#') or 0) or 0 -- lib/far.lua
  return redis.call('HLEN', pool) + far - redis.call('ZCARD', base .. ':done') - known
end

local function look_at_sums()
  out[4] = redis.call('HLEN', key('pool'))
  local sum = -out[4]
  for i, name in ipairs({ 'delay', 'unack', 'error', 'held', 'done' }) do
    out[4 + i] = redis.call('ZCARD', key(name))
    sum = sum + out[4 + i]
  end
  local far = far().count()
  out[4], out[5] = out[4] + far, out[5] + far
  if sum ~= 0 then
    found('counts', string.format('%.0f', sum))
  end
  local gap = sums_gap()
  if gap ~= 0 then
    found('sums', string.format('%.0f', gap))
    if repair then
      redis.call('HINCRBY', key('sums'), 'base', gap)
    end
  end
end

local LOOK = {
  pool = { 'HSCAN', look_at_pool }, held = { 'ZSCAN', look_at_held },
  delay = { 'ZSCAN', look_at_index }, unack = { 'ZSCAN', look_at_index },
  error = { 'ZSCAN', look_at_index }, done = { 'ZSCAN', look_at_index },
  place = { 'HSCAN', look_at_place }, lead = { 'HSCAN', look_at_lead },
  away = { 'ZSCAN', look_at_away },
  tries = { 'HSCAN', look_for(has_body, 'HDEL') }, ended = { 'HSCAN', look_for(is_tried, 'HDEL') },
  ttl = { 'ZSCAN', look_for(is_alive, 'ZREM') },
}

local was = repair and first_due()
if repair then
  redis.call('ZREM', delay, '') -- never there
end
if part == 'sums' then
  look_at_sums()
elseif part == 'far' then
  out[1] = look_at_far()
else
  local scan = redis.call(LOOK[part][1], key(part), cursor, 'COUNT', count)
  out[1], out[2] = scan[1], #scan[2] / 2
  LOOK[part][2](scan[2])
end
if repair then
  tell_head(was)
end
return out
