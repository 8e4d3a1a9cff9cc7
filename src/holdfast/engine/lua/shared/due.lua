--[[ What time brings: delayed messages fall due, leases end (reclaim.lua), dedup windows close. Every receive
  calls HF.catch_up first, so that no daemon has to run; `next` in the state says when there is
  something to do, so that it costs nothing when there is not. Work per call is bounded; what is
  left keeps `next` in the past and the next call goes on with it.                              ]]

local LIMIT = 1000

-- Put messages into the delayed state, each until its own time.
function HF.delay(q, records, times)
  local scores, fields, sooner = {}, {}, false
  for i = 1, #records do
    local id = string.sub(records[i], 1, 10)
    HF.may_expire(q, records[i])
    scores[2 * i - 1], scores[2 * i] = times[i], id
    fields[2 * i - 1], fields[2 * i] = id, records[i]
    sooner = HF.due_at(q, times[i]) or sooner
  end
  HF.each('HSET', q.base .. K.delayed, fields, 1, #fields)
  HF.each('ZADD', q.base .. K.due, scores, 1, #scores)
  if sooner then HF.wake(q) end
end

-- Move delayed messages to ready, in the order given. A grouped retry kept its place in its group
-- and goes before the others of it.
function HF.promote(q, ids)
  local records = HF.hmget(q.base .. K.delayed, ids)
  local fresh, held = {}, {}
  for i = 1, #ids do
    local r = records[i]
    if r and HF.keeps_place(r) and HF.group(r) then
      held[#held + 1] = HF.with_receives(r, HF.receives(r))
    elseif r then
      fresh[#fresh + 1] = r
    end
  end
  HF.fit(q, fresh)
  HF.fit(q, held)
  HF.ready_push(q, fresh, false)
  HF.ready_push(q, held, true)
  HF.each('HDEL', q.base .. K.delayed, ids, 1, #ids)
  HF.each('ZREM', q.base .. K.due, ids, 1, #ids)
end

-- A delivery failed: each message is ready again at the head, delayed, or dead. `delay_ms` 0: now.
function HF.fail(q, records, delay_ms, err)
  local again, times, over = {}, {}, {}
  local most = q.settings.max_receives
  for i = 1, #records do
    local receives = HF.receives(records[i]) + 1
    local r = HF.with_receives(records[i], receives)
    if most > 0 and receives >= most then
      over[#over + 1] = r
    else
      again[#again + 1], times[#times + 1] = r, q.now + delay_ms
    end
  end
  if delay_ms > 0 then
    HF.delay(q, again, times)
  else
    HF.ready_push(q, again, true)
  end
  q.requeued = q.requeued + #again
  HF.note(q, 'requeued', again, delay_ms > 0 and times or nil, err)
  HF.bury(q, over, 'max_receives', err)
end

local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or 0)
end

-- Returns true if it had anything to look at; and true if there are messages on their way back to the head that
-- have not all come, so that nothing may be handed out.
function HF.catch_up(q)
  if q.next == 0 or q.next > q.now then return false, false end
  local due = redis.call('ZRANGEBYSCORE', q.base .. K.due, '-inf', q.now, 'LIMIT', 0, LIMIT)
  -- Saved after each step: what it did is done, also if a later one cannot be.
  if #due > 0 then
    HF.promote(q, due)
    HF.save(q)
  end
  HF.reclaim(q)
  HF.save(q)
  HF.dedup_prune(q)
  HF.reservations_due(q)
  q.next = 0
  local behind = false
  for name, back in pairs({ due = false, deadlines = true, dedup_until = false, reservation_ends = true }) do
    local at = first_score(q.base .. K[name])
    if at > 0 and at < HF.FOREVER then HF.due_at(q, at) end
    behind = behind or (back and at > 0 and at <= q.now)
  end
  return true, behind
end
