--[[ What comes in, by send or publish: parsed, named, and stored; and the memory of a sender's last call,
  by which a call whose answer was lost is not carried out twice.                               ]]

-- Text, for an argument that is a number is printed as one each time.
local KEEP_ANSWER, KEEP_ANSWER_MS = '60000', 60000

-- The answer to this very call, if it was carried out already and the caller asks for that.
function HF.answered(base, args)
  if args[1] == '' or args[3] ~= '1' then return nil end
  local kept = redis.call('GET', base .. K.last_send .. args[1])
  local last = kept and cmsgpack.unpack(kept)
  return last and last[1] == args[2] and last[2] or nil
end

function HF.remember(base, args, reply)
  if args[1] == '' then return end
  redis.call('SET', base .. K.last_send .. args[1], cmsgpack.pack({ args[2], reply }), 'PX', KEEP_ANSWER)
end

--[[ The same for single sends, made cheap for a lone sender: its last call lies in the queue's own hash, which
  is written anyway, as answer, sender, zero, call. When another one sends, it moves to a key of its own. ]]

local ANSWER = 13

-- What to write into the hash for a call that was answered so.
function HF.last_of(args, reply) return reply .. args[1] .. '\0' .. args[2] end

function HF.answered_one(base, args)
  if args[1] == '' or args[3] ~= '1' then return nil end
  local name = args[1] .. '\0' .. args[2]
  for _, last in ipairs({ redis.call('HGET', base, 'last') or '', redis.call('GET', base .. K.last_one .. args[1]) or '' }) do
    if string.sub(last, ANSWER + 1) == name then return string.sub(last, 1, ANSWER) end
  end
  return nil
end

-- Make room in the hash: `sender` is going to write there ('': nobody, the hash goes).
function HF.move_last(base, last, sender, now)
  if last == '' then return end
  if string.find(last, sender, ANSWER + 1, true) == ANSWER + 1 and string.byte(last, ANSWER + 1 + #sender) == 0 then return end
  if struct.unpack('>I6', last) + KEEP_ANSWER_MS < now then return end
  local its = string.match(last, '^(.*)%z', ANSWER + 1)
  redis.call('SET', base .. K.last_one .. its, last, 'PX', KEEP_ANSWER)
end

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

-- Give ids to what is new; list what is not as a duplicate of whom.
function HF.name_messages(q, list)
  local asked = {}
  for _, m in ipairs(list) do if m.dedup then asked[#asked + 1] = m.dedup end end
  local known = HF.dedup_known(q, asked)
  local fresh, duplicates, dedups, uniques = {}, {}, {}, {}
  local ms = math.max(q.now, q.ms)
  local seq = ms == q.ms and q.seq + 1 or 0
  local first = seq
  for i, m in ipairs(list) do
    local of = m.dedup and (known[m.dedup] or dedups[m.dedup] and dedups[m.dedup][1])
    if not of and m.unique then
      of = uniques[m.unique] or redis.call('HGET', q.base .. K.unique, m.unique)
    end
    if of then
      duplicates[#duplicates + 1], duplicates[#duplicates + 2] = i - 1, of
    else
      local id = HF.pack_id(ms, seq)
      seq = seq + 1
      m.record = id .. '\0\0' .. m.envelope
      fresh[#fresh + 1] = m
      if m.dedup then dedups[m.dedup] = { id, m.window } end
      if m.unique then uniques[m.unique] = id end
    end
  end
  return { ms = ms, first = first, last = seq - 1, fresh = fresh, duplicates = duplicates, dedups = dedups, uniques = uniques }
end

-- How many must give way for `n` more; FULL if none may.
function HF.over_length(q, n)
  local most = q.settings.max_length
  if most == 0 or n == 0 then return 0 end
  local ready = HF.ready_count(q)
  local length = ready + redis.call('ZCARD', q.base .. K.due)
  local over = length + n - most
  if over <= 0 then return 0 end
  if q.settings.overflow ~= 'drop_oldest' or n > most or ready < over then
    error({ err = string.format('FULL the queue holds %d of at most %d messages: receive some, raise max_length, or set overflow to drop_oldest', length, most) })
  end
  return over
end

-- The oldest give way.
function HF.make_room(q, over)
  if over == 0 then return end
  local pick = HF.ready_pick_oldest(q, over)
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
