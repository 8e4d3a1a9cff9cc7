--[[ send: store messages, ready at once or delayed.
  KEYS   queue
  ARGV   sender, call, again, form, then the messages. form 'plain': envelope each; form 'full':
         when ('' | '+' delay ms | '@' due ms), dedup id or '', envelope. sender '' keeps no memory
         of the call; else (sender, call) names it, and again = 1 asks for the answer of a call
         that may have been carried out already.
  Reply  ms and seq of the first new id (the rest count up from it, in order), 1 if somebody waits,
         how many shards the queue has, then position (0-based) and id for each duplicate
  Errors INVALID, FULL
  Cost   O(messages), O(messages · log delayed) for delayed ones
  Flags  deny-oom                                                                               ]]

local KEEP_ANSWER_MS = 60000

local function parse(q, args)
  if args[4] ~= 'plain' and args[4] ~= 'full' then error({ err = 'INVALID form must be plain or full' }) end
  local step = args[4] == 'plain' and 1 or 3
  if (#args - 4) % step ~= 0 or #args == 4 then error({ err = 'INVALID give at least one message' }) end
  local list = {}
  for i = 5, #args, step do
    local m = { envelope = args[i + step - 1], at = 0 }
    if not HF.envelope_ok(m.envelope) then error({ err = 'INVALID a message is not a valid envelope' }) end
    local when = step == 3 and args[i] or ''
    if when == '' then
      if q.settings.delay_ms > 0 then m.at = q.now + q.settings.delay_ms end
    else
      m.at = HF.moment(q, when)
    end
    if step == 3 and args[i + 1] ~= '' then m.dedup = args[i + 1] end
    if string.byte(m.envelope, 2) >= HF.UNIQUE then
      -- HF.unique reads a message, of which the envelope is the part from byte 13 on.
      m.unique = HF.unique(string.rep('\0', 12) .. m.envelope)
    end
    list[#list + 1] = m
  end
  return list
end

-- Give ids to what is new; list what is not as a duplicate of whom.
local function name(q, list)
  local asked = {}
  for _, m in ipairs(list) do if m.dedup then asked[#asked + 1] = m.dedup end end
  local known = HF.dedup_known(q, asked)
  local fresh, duplicates, dedups, uniques = {}, {}, {}, {}
  local ms = math.max(q.now, q.ms)
  local seq = ms == q.ms and q.seq + 1 or 0
  local first = seq
  for i, m in ipairs(list) do
    local of = m.dedup and (known[m.dedup] or dedups[m.dedup])
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
      if m.dedup then dedups[m.dedup] = id end
      if m.unique then uniques[m.unique] = id end
    end
  end
  return { ms = ms, first = first, last = seq - 1, fresh = fresh, duplicates = duplicates, dedups = dedups, uniques = uniques }
end

-- Room for `n` more, or FULL; drops the oldest where the queue is set so.
local function make_room(q, n)
  local most = q.settings.max_length
  if most == 0 or n == 0 then return end
  local ready = HF.ready_count(q)
  local length = ready + redis.call('ZCARD', q.base .. K.due)
  local over = length + n - most
  if over <= 0 then return end
  if q.settings.overflow ~= 'drop_oldest' or n > most or ready < over then
    error({ err = string.format('FULL the queue holds %d of at most %d messages: receive some, raise max_length, or set overflow to drop_oldest', length, most) })
  end
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

local function store(q, fresh)
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

-- The common case, made cheap: one priority, and no delay, group, TTL, dedup or limit.
local function send_plain(q, args)
  local settings = q.settings
  if args[4] ~= 'plain' or settings.delay_ms > 0 or settings.max_length > 0 or HF.noting(q) then return nil end
  local byte, pack, list, n = string.byte, struct.pack, {}, #args - 4
  local ms = math.max(q.now, q.ms)
  local first = ms == q.ms and q.seq + 1 or 0
  local level, last = byte(args[5], 1), first - 5
  for i = 5, n + 4 do
    local envelope = args[i]
    local priority, flags = byte(envelope, 1, 2)
    if flags ~= 0 and (flags ~= 1 or not HF.envelope_ok(envelope)) then return nil end
    if priority ~= level or #envelope < 6 then return nil end
    list[i - 4] = pack('>I6I4I2c0', ms, last + i, 0, envelope)
  end
  if level > 9 then return nil end
  HF.fit_wake(q)
  HF.each('RPUSH', q.base .. K.ready .. level, list, 1, n)
  HF.mark_level(q, level)
  HF.wake(q)
  q.ms, q.seq, q.sent = ms, first + n - 1, q.sent + n
  return { ms, first, q.waiting > q.now and 1 or 0, settings.shards }
end

local function send_any(q, args)
  local list = parse(q, args)
  local new = name(q, list)
  local records = {}
  for i, m in ipairs(new.fresh) do records[i] = m.record end
  HF.fit(q, records)
  make_room(q, #new.fresh)
  if #new.fresh > 0 then
    -- The ids are taken from here on, also if something below fails half way.
    q.ms, q.seq = new.ms, new.last
    for _, r in ipairs(records) do HF.mark_kinds(q, r) end
    HF.save(q)
  end
  store(q, new.fresh)
  HF.dedup_keep(q, new.dedups)
  for unique, id in pairs(new.uniques) do redis.call('HSET', q.base .. K.unique, unique, id) end
  q.duplicates = q.duplicates + #new.duplicates / 2
  local reply = { new.ms, new.first, q.waiting > q.now and 1 or 0, q.settings.shards }
  for i = 1, #new.duplicates do reply[i + 4] = new.duplicates[i] end
  return reply
end

function T.send(keys, args)
  if #args < 5 then error({ err = 'INVALID give at least one message' }) end
  local memory = args[1] ~= '' and keys[1] .. K.last_send .. args[1]
  if memory and args[3] == '1' then
    local kept = redis.call('GET', memory)
    local last = kept and cmsgpack.unpack(kept)
    if last and last[1] == args[2] then return last[2] end
  end
  local q = HF.open(keys[1])
  local reply = send_plain(q, args) or send_any(q, args)
  HF.save(q)
  if memory then redis.call('SET', memory, cmsgpack.pack({ args[2], reply }), 'PX', KEEP_ANSWER_MS) end
  return reply
end
