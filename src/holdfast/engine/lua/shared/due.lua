--[[ What time brings: delayed messages fall due, leases end, dedup windows close. Every receive
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

-- The ids behind one entry of `deadlines`.
local function ids_of(q, member)
  if #member == 10 then return { member } end
  HF.loosen(q, member)
  return HF.ids_in(HF.entry_of(q, member) or '')
end

-- Which leased messages the entries `ended` of `deadlines` speak of, in the order of their delivery.
local function ended_leases(q, ended)
  local found, alone, looked, done = {}, false, 0, {}
  table.sort(ended, function(a, b) return struct.unpack('>I6', a) < struct.unpack('>I6', b) end)
  for _, member in ipairs(ended) do
    if looked >= LIMIT then break end
    local ids, single = ids_of(q, member), #member == 10
    looked, done[#done + 1] = looked + math.max(#ids, 1), member
    for i, v in ipairs(HF.leased_get(q, ids)) do
      local own = v and string.byte(v, 1) % 2 == HF.OWN
      if v and single == own and (single or string.sub(v, 2, 7) == member) then
        found[#found + 1], alone = { ids[i], v }, alone or single
      end
    end
  end
  if alone then
    local function rank(h)
      local batch, ms, seq = struct.unpack('>I6', h[2], 2), struct.unpack('>I6I4', h[1])
      return batch, ms, seq
    end
    table.sort(found, function(a, b)
      local a1, a2, a3 = rank(a)
      local b1, b2, b3 = rank(b)
      if a1 ~= b1 then return a1 < b1 end
      if a2 ~= b2 then return a2 < b2 end
      return a3 < b3
    end)
  end
  return found, done
end

local function reclaim(q)
  local ended = redis.call('ZRANGEBYSCORE', q.base .. K.deadlines, '-inf', q.now, 'LIMIT', 0, LIMIT)
  local held, done = ended_leases(q, ended)
  if #done == 0 then return end
  local records, ids, dead = {}, {}, {}
  for _, h in ipairs(held) do
    local r, head = HF.unleash(h[2])
    if head then
      ids[#ids + 1], dead[#dead + 1] = h[1], head .. r
    else
      records[#records + 1] = r
    end
  end
  HF.fit(q, records)
  HF.fail(q, records, 0, 'the lease ended without an ack')
  HF.rebury(q, ids, dead)
  HF.release(q, held)
  HF.each('ZREM', q.base .. K.deadlines, done, 1, #done)
end

local function first_score(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or 0)
end

-- Returns true if it had anything to look at.
function HF.catch_up(q)
  if q.next == 0 or q.next > q.now then return false end
  local due = redis.call('ZRANGEBYSCORE', q.base .. K.due, '-inf', q.now, 'LIMIT', 0, LIMIT)
  -- Saved after each step: what it did is done, also if a later one cannot be.
  if #due > 0 then
    HF.promote(q, due)
    HF.save(q)
  end
  reclaim(q)
  HF.save(q)
  HF.dedup_prune(q)
  HF.reservations_due(q)
  q.next = 0
  for _, name in ipairs({ 'due', 'deadlines', 'dedup_until', 'reservation_ends' }) do
    local at = first_score(q.base .. K[name])
    if at > 0 then HF.due_at(q, at) end
  end
  return true
end
