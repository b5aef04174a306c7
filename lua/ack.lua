-- SPDX-License-Identifier: BSD-2-Clause
-- ack.lua - forgets delivered jobs of one bucket.
--
-- An ack also counts after its lease has expired, since the job was delivered: the job then is in :delay again, or in
-- flight with another lease. lua/reap.lua has noted the expired lease. Any other lease is that of an earlier job of
-- that id: that job was acked by a call whose answer was lost, or it was replaced.
local ids, by = {}, {} -- of each row: id and lease
for at = FIRST_ROW, #ARGV, ROW do
  ids[#ids + 1], by[#ids + 1] = ARGV[at], ARGV[at + LEASE]
end
local leases = redis.call('ZMSCORE', unack, unpack(ids))

-- The job of row i expired before anybody got it.
local function is_lapsed(i)
  local how = ARGV[FIRST_ROW + (i - 1) * ROW + HOW]
  return how ~= '' and string.sub(how, 1, 1) == HOW_LAPSED
end

local codes, strayed = {}, false
for i, id in ipairs(ids) do
  codes[i] = STALE
  if holds(leases[i], by[i]) then
    codes[i] = FORGOTTEN
  elseif not is_lapsed(i) and late().has_ended(id, by[i]) then
    codes[i], strayed = FORGOTTEN, true
  end
end
if strayed then -- one call may have two leases of one job: the job is acked once
  local taken = {}
  for i, id in ipairs(ids) do
    if codes[i] == FORGOTTEN and taken[id] then
      codes[i] = STALE
    end
    taken[id] = taken[id] or codes[i] == FORGOTTEN
  end
end
local gone, rows, lapsed = {}, {}, 0 -- rows: of those that are gone; lapsed: how many of these
for i, id in ipairs(ids) do
  if codes[i] == FORGOTTEN then
    gone[#gone + 1], rows[#gone + 1] = id, i
    lapsed = lapsed + (is_lapsed(i) and 1 or 0)
  end
end
if #gone > 0 then
  redis.call('ZREM', unack, unpack(gone))
  if strayed then
    redis.call('ZREM', delay, unpack(gone))
    redis.call('ZREM', dead, unpack(gone))
  end
  if redis.call('HDEL', tries, unpack(gone)) > 0 then
    for k, ended in ipairs(redis.call('HMGET', base .. ':ended', unpack(gone))) do
      late().outdate(gone[k], by[rows[k]], leases[rows[k]], ended)
    end
    redis.call('HDEL', base .. ':ended', unpack(gone))
  end
  local left = redis.call('HDEL', pool, unpack(gone))
  local expired = math.min(left, lapsed) -- not by sums_add(): it costs 11 % of an ack of one job
  if left > expired then
    redis.call('HINCRBY', base .. ':sums', 'delivered', left - expired)
  end
  if expired > 0 then
    redis.call('HINCRBY', base .. ':sums', 'expired', expired)
  end
  -- Each call deletes up to twice as many expired ids as it adds, so :seen stays small. The key
  -- itself expires when no ids are added.
  if remember_ms > 0 and #gone > lapsed then
    now = now or select(2, clock())
    local seen = base .. ':seen' -- zset: id of a delivered job, scored by the end of its remembrance in ms
    call_in_slices('ZREM', seen, redis.call('ZRANGEBYSCORE', seen, '-inf', now, 'LIMIT', 0, 2 * (#gone - lapsed)))
    local till = {}
    for k, id in ipairs(gone) do
      if not is_lapsed(rows[k]) then
        push(till, now + remember_ms, id)
      end
    end
    call_in_slices('ZADD', seen, till)
    redis.call('PEXPIRE', seen, remember_ms + 1000)
  end
end
for i = 1, #gone < #ids and #ids or 0 do
  if codes[i] == STALE then
    local again = string.find(ARGV[FIRST_ROW + (i - 1) * ROW + HOW], '+', 1, true)
    codes[i] = late().stale(ids[i], by[i], '', again)
  end
end
if late_made then
  late_made.write()
end
-- A group may wait for the outcome of a job that is gone.
local ordered = #gone > 0 and redis.call('EXISTS', base .. ':place') == 1
if ordered or (#gone < #ids and redis.call('EXISTS', base .. ':away') == 1) then
  for i, id in ipairs(ids) do
    if codes[i] == FORGOTTEN then
      local mine = leases[i] and tonumber(leases[i]) == tonumber(by[i])
      order().left(id, false, not mine and leases[i])
    end
  end
  if strayed then -- the calls above may have moved such a job to :delay
    redis.call('ZREM', delay, unpack(gone))
  end
  for i, id in ipairs(ids) do
    if codes[i] ~= FORGOTTEN then
      order().returned(id, by[i])
    end
  end
end
return order_made and order_made.reply(codes) or table.concat(codes)
