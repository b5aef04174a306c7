-- SPDX-License-Identifier: BSD-2-Clause
-- dead.lua - lists the dead letters of one bucket, the oldest first; replays or deletes those that match.
--
-- If the next call passes end_ms of the reply, it skips letters that were buried meanwhile: from then until now. With
-- ahead it does not skip those of a time after now: the clock was set back. A replayed job starts anew: its tries keep
-- only the number of replays. The script finds its position by rank, so a cursor stays valid if its letter is gone.
local upto = math.min(to_ms or now, now)
local LOOK_MAX = 500
look = math.min(look, LOOK_MAX)

-- Returns the rank of the first letter to examine.
local function start()
  local first = redis.call('ZCOUNT', dead, '-inf', string.format('(%.0f', from_ms))
  return after == '' and first or math.max(first, rank_behind(dead, string.format('%.0f', after_ms), after))
end

-- Returns the letters to examine, and one more: {id, score, id, score, ...}.
local function candidates()
  if id_whole then
    local score = tonumber(redis.call('ZSCORE', dead, id) or nil)
    return score and score >= from_ms and (score <= upto or ahead and score > now) and { id, score } or {}
  end
  local rank, found = start(), {}
  local past = redis.call('ZCOUNT', dead, '-inf', string.format('%.0f', upto))
  if rank < past then
    found = redis.call('ZRANGE', dead, rank, math.min(rank + look, past - 1), 'WITHSCORES')
  end
  local left = look + 1 - #found / 2
  if ahead and left > 0 then
    rank = math.max(rank, redis.call('ZCOUNT', dead, '-inf', string.format('%.0f', now)))
    for _, field in ipairs(redis.call('ZRANGE', dead, rank, rank + left - 1, 'WITHSCORES')) do
      found[#found + 1] = field
    end
  end
  return found
end

local found, ids = candidates(), {}
for i = 1, #found, 2 do
  ids[#ids + 1] = found[i]
end
local notes = #ids > 0 and redis.call('HMGET', tries, unpack(ids)) or {}

local function matches(i)
  local its = string.match(notes[i] or '', '^%d+|([^|]*)|') or ''
  return (reason == '' or reason == its) and string.sub(ids[i], 1, #id) == id
end

next_us = math.max(next_us or 0, now_us)
local done, refused = 0, 0

-- Replays a letter. Returns its due time in ms, or nil if it must stay: it was replayed too often,
-- or its destination is unknown.
local function replay(i)
  local replays = string.match(notes[i] or '', '^%d+|[^|]*|%d+/%d*/(%d+)|') or 0
  local lost = string.find(notes[i] or '', '^%d+|no%-route|')
  if lost or tonumber(replays) >= replays_max then
    refused = refused + 1
    return nil
  end
  local due = math.ceil(next_us / 1000)
  next_us = next_us + step_us
  done = done + 1
  if not dry_run then
    redis.call('ZREM', dead, ids[i])
    redis.call('HSET', tries, ids[i], string.format('0||0/0/%d|0|0|', replays + 1))
    if of_queue then
      redis.call('ZADD', delay, due * 1000, ids[i])
    else
      order().place(ids[i], due)
    end
  end
  return due
end

local was = first_score(delay)
local out = { now, 0, upto, 0, 0, '', 0, 0, 0, 0 } -- the head of the reply, then the letters
local count, bytes, at = 0, 0, 0
while at < math.min(#ids, look) and count < max do
  local i = at + 1
  if matches(i) then
    local record = what == WHAT_LIST and redis.call('HGET', pool, ids[i]) or ''
    bytes = bytes + #record
    if count > 0 and bytes > bytes_max then
      break
    end
    local due
    if what == WHAT_REPLAY then
      due = replay(i)
    elseif what == WHAT_DROP then
      done = done + 1
      if not dry_run then
        redis.call('ZREM', dead, ids[i])
        remove(ids[i], 'dropped', '')
      end
    end
    for _, field in ipairs({ ids[i], tonumber(found[2 * i]), notes[i] or '', record, due or -1,
                             what == WHAT_REPLAY and not due and 1 or 0 }) do
      out[#out + 1] = field
    end
    count = count + 1
  end
  at = i
end

write_notes(of_queue)
out[2], out[4] = tell_head(was), at < #ids and 1 or 0
out[5], out[6], out[7] = tonumber(found[2 * at] or 0), ids[at] or '', at
out[8], out[9], out[10] = done, refused, next_us
return out
