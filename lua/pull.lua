-- SPDX-License-Identifier: BSD-2-Clause
-- pull.lua - leases due jobs of a queue to consumers in the order of the call; at most 1000 in all.
-- Without consumers it only settles expired leases and jobs.
--
-- Only jobs due before the first slot of far jobs are leased: that slot has not moved completely, and its entries are
-- not sorted by due time.
local total = 0
for at = FIRST_ROW, #ARGV, ROW do
  total = total + tonumber(ARGV[at + MAX])
end
total = math.min(total, 1000)
local out, out_n, names, dues = { 0, 0, 0 }, 3, {}, {}
if total > 0 then
  local last = slot >= 0 and slot <= now and string.format('(%.0f', slot * UNIT) or now_due
  local found = redis.call('ZRANGEBYSCORE', delay, '-inf', last, 'WITHSCORES', 'LIMIT', 0, total)
  for at = 1, #found, 2 do
    names[#names + 1] = found[at]
    dues[#dues + 1] = tonumber(found[at + 1])
  end
end
if #names > 0 then
  local notes = redis.call('EXISTS', tries) == 1 and redis.call('HMGET', tries, unpack(names)) or {}
  local ends = redis.call('EXISTS', ttl) == 1 and redis.call('ZMSCORE', ttl, unpack(names)) or {}
  local consumer, left, leased, taken, bytes = 1, tonumber(ARGV[FIRST_ROW + MAX]), {}, {}, 0
  local from_ms, bodies = claim_time(soon), {}
  local texts = {} -- lease -> its text, once, because Redis formats a number slowly
  for i, id in ipairs(names) do
    if i % CLAIM_AT_ONCE == 1 then
      bodies = redis.call('HMGET', pool, unpack(names, i, math.min(i + CLAIM_AT_ONCE - 1, #names)))
    end
    local over_ms, record = tonumber(ends[i] or nil), bodies[(i - 1) % CLAIM_AT_ONCE + 1]
    bytes = bytes + #(record or '')
    if bytes > CLAIM_BYTES and i > 1 then
      break
    elseif over_ms and over_ms <= now then
      expire(id) -- more expired jobs than one call settles
    else
      while left == 0 do
        consumer = consumer + 1
        left = tonumber(ARGV[FIRST_ROW + (consumer - 1) * ROW + MAX])
      end
      left = left - 1
      local wanted = tonumber(ARGV[FIRST_ROW + (consumer - 1) * ROW + LEASE_MS])
      if wanted == 0 then
        wanted = select(2, says(record))
      end
      local lease = from_ms + (wanted > 0 and wanted or lease_ms)
      taken[#taken + 1] = id
      texts[lease] = texts[lease] or string.format('%.0f', lease)
      if record then
        push(leased, texts[lease], id)
      else
        forget(id)
      end
      out[out_n + 1], out[out_n + 2], out[out_n + 3], out[out_n + 4] = id, record or '', notes[i] or '', lease
      out[out_n + 5], out[out_n + 6], out[out_n + 7] = over_ms or -1, consumer, dues[i]
      out_n = out_n + 7
    end
  end
  if #taken > 0 then
    redis.call('ZREM', delay, unpack(taken))
    claim_note(from_ms)
  end
  call_in_slices('ZADD', unack, leased)
end
out[1], out[2], out[3] = now, settle_head(), first_score(unack)
return reply(out)
