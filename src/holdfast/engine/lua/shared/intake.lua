--[[ What comes in, by send or publish: parsed, given ids, and stored.                            ]]

-- Arguments for each message, by form.
local STEPS = { plain = 1, full = 3, timed = 4 }

-- The messages in args[5..], checked. See send.lua for the forms.
function HF.parse_messages(q, args)
  local step = STEPS[args[4]]
  if not step then error({ err = 'INVALID form must be plain, full or timed' }) end
  if (#args - 4) % step ~= 0 or #args == 4 then error({ err = 'INVALID give at least one message' }) end
  local list = {}
  for i = 5, #args, step do
    local m = { envelope = args[i + step - 1], at = 0 }
    if not HF.envelope_ok(m.envelope) then error({ err = 'INVALID a message is not a valid envelope' }) end
    local when = step > 1 and args[i] or ''
    if when == '' then
      if q.settings.delay_ms > 0 then m.at = q.now + q.settings.delay_ms end
    else
      m.at = HF.moment(q, when)
    end
    if step > 1 and args[i + 1] ~= '' then m.dedup = args[i + 1] end
    if step == 4 then
      local window = HF.integer(args[i + 2], 'dedup_ms', 0, HF.FOREVER)
      if window > 0 then m.window = window end
    end
    if string.byte(m.envelope, 2) >= HF.UNIQUE then
      -- HF.unique reads a message, of which the envelope is the part from byte 13 on.
      m.unique = HF.unique(string.rep('\0', 12) .. m.envelope)
    end
    list[#list + 1] = m
  end
  return list
end

-- Give ids to what is new; list what is not as a duplicate of whom. `from`, `room`: begin with this one, and stop
-- before there are more new ones than that; where there is room for none, list what is new as refused.
function HF.name_messages(q, list, from, room)
  from, room = from or 1, room or #list
  local asked = {}
  for i = from, #list do if list[i].dedup then asked[#asked + 1] = list[i].dedup end end
  local known = HF.dedup_known(q, asked)
  local fresh, duplicates, refused, dedups, uniques, next = {}, {}, {}, {}, {}, #list + 1
  local ms = math.max(q.now, q.ms)
  local seq = ms == q.ms and q.seq + 1 or 0
  local first = seq
  for i = from, #list do
    local m = list[i]
    local of = m.dedup and (known[m.dedup] or dedups[m.dedup] and dedups[m.dedup][1])
    if not of and m.unique then
      of = uniques[m.unique] and string.sub(uniques[m.unique], 1, 10) or HF.name_taken(q, m.unique)
    end
    if of then
      duplicates[#duplicates + 1], duplicates[#duplicates + 2] = i - 1, of
    elseif room == 0 then
      refused[#refused + 1] = i - 1
    elseif #fresh == room then
      next = i
      break
    else
      local id = HF.pack_id(ms, seq)
      seq = seq + 1
      m.record = id .. '\0\0' .. m.envelope
      fresh[#fresh + 1] = m
      if m.dedup then dedups[m.dedup] = { id, m.window } end
      if m.unique then uniques[m.unique] = m.record end
    end
  end
  return { ms = ms, first = first, last = seq - 1, fresh = fresh, duplicates = duplicates, refused = refused,
    dedups = dedups, uniques = uniques, next = next }
end

-- How many are ready, and how many wait in all, where `n` more are to come. Those that have expired do not count.
local function waiting(q, n)
  local ready = HF.ready_count(q)
  local length = ready + redis.call('ZCARD', q.base .. K.due)
  local over = length + n - q.settings.max_length
  if over > 0 and HF.sweep(q, over) > 0 then
    ready = HF.ready_count(q)
    length = ready + redis.call('ZCARD', q.base .. K.due)
  end
  return ready, length
end

local function full_text(q, length)
  return string.format('FULL the queue holds %d of at most %d messages: receive some, raise max_length, or set overflow to drop_oldest', length, q.settings.max_length)
end

-- How many must give way for `n` more; FULL if none may.
function HF.over_length(q, n)
  local most = q.settings.max_length
  if most == 0 or n == 0 then return 0 end
  local ready, length = waiting(q, n)
  local over = length + n - most
  if over <= 0 then return 0 end
  if q.settings.overflow ~= 'drop_oldest' or n > most or ready < over then error({ err = full_text(q, length) }) end
  return over
end

-- How many of `n` more can be stored at once; and if none can, why.
function HF.room(q, n)
  local most = q.settings.max_length
  if most == 0 then return n end
  local ready, length = waiting(q, n)
  -- What is ready may give way; what is delayed may not.
  local room = most - length + (q.settings.overflow == 'drop_oldest' and ready or 0)
  return math.max(math.min(n, most, room), 0), full_text(q, length)
end

-- The oldest give way.
function HF.make_room(q, over)
  if over == 0 then return end
  local pick = HF.ready_pick_oldest(q, over, nil, true)
  HF.ready_drop(q, pick)
  HF.groups_settle(q, pick.records)
  local dropped, short = pick.records, over - pick.n - #pick.expired
  if short > 0 then
    for _, r in ipairs(HF.groups_take(q, short)) do dropped[#dropped + 1] = r end
  end
  HF.forget(q, dropped)
  q.dropped = q.dropped + #dropped
  HF.note(q, 'dropped', dropped)
end

-- Into the queue with new messages, each { record = …, at = when it is due, or 0 }.
function HF.store(q, fresh)
  local now, later, times, notes, ats = {}, {}, {}, {}, {}
  for i, m in ipairs(fresh) do
    notes[i], ats[i] = m.record, m.at > q.now and m.at or 0
    if m.at > q.now then
      later[#later + 1], times[#times + 1] = m.record, m.at
    else
      now[#now + 1] = m.record
    end
  end
  if #later > 0 then HF.delay(q, later, times) end
  if #now > 0 then
    HF.ready_push(q, now, false)
    HF.wake(q)
  end
  q.sent = q.sent + #fresh
  HF.note(q, 'sent', notes, ats)
end
