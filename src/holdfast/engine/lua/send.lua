--[[ send: store messages, ready at once or delayed.
  KEYS   queue
  ARGV   sender, call, again, form, then the messages. form 'plain': envelope each; form 'full':
         when ('' | '+' delay ms | '@' due ms), dedup id or '', envelope; form 'timed': the same with the
         dedup id's own window, in ms (0: the queue's), before the envelope. sender '' keeps no memory
         of the call; else (sender, call) names it, and again = 1 asks for the answer of a call
         that may have been carried out already (memory.lua). 'each ' before the form: these are sends of
         several that travel together; where there is no room for all, the first of them are stored.
  Reply  ms and seq of the first new id (the rest count up from it, in order), 1 if somebody waits, and 2 more if
         nothing was ever sent here before; how many shards the queue has, then position (0-based) and id for each
         duplicate, position and error for each that was refused
  Errors INVALID, FULL, ANSWERLOST, RESHARDED
  Cost   O(messages), O(messages · log delayed) for delayed ones
  Flags  deny-oom                                                                               ]]

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

-- What was named, into the queue: all of it, or FULL.
local function keep(q, new)
  local records = {}
  for i, m in ipairs(new.fresh) do records[i] = m.record end
  local over = HF.over_length(q, #new.fresh)
  HF.fit(q, records)
  HF.make_room(q, over)
  if #new.fresh > 0 then
    -- The ids are taken from here on, also if something below fails half way.
    q.ms, q.seq = new.ms, new.last
    for _, r in ipairs(records) do HF.mark_kinds(q, r) end
    HF.save(q)
  end
  HF.store(q, new.fresh)
  HF.dedup_keep(q, new.dedups)
  for name, r in pairs(new.uniques) do HF.take_name(q, name, r) end
  q.duplicates = q.duplicates + #new.duplicates / 2
end

local function send_any(q, args, each)
  local list, next, reply, why = HF.parse_messages(q, args), 1, nil, nil
  if each then
    -- Before the first piece is stored: an error must find none.
    local records = {}
    for i, m in ipairs(list) do records[i] = string.rep('\0', 12) .. m.envelope end
    HF.fit(q, records)
  end
  while next <= #list do
    local room = #list
    if each then room, why = HF.room(q, #list - next + 1) end
    local new = HF.name_messages(q, list, next, room)
    keep(q, new)
    -- Ids count up over all pieces, since the time is the same.
    reply = reply or { new.ms, new.first, q.waiting > q.now and 1 or 0, q.settings.shards }
    for i = 1, #new.duplicates do reply[#reply + 1] = new.duplicates[i] end
    for _, position in ipairs(new.refused) do reply[#reply + 1], reply[#reply + 2] = position, why end
    next = new.next
  end
  return reply
end

function T.send(keys, args)
  if #args < 5 then error({ err = 'INVALID give at least one message' }) end
  local q = HF.open(keys[1])
  local found, reply = HF.known(q, args[1], args[2], args[3])
  if found then return type(reply) == 'table' and reply or { struct.unpack(HF.ONE, reply) } end
  HF.check_shard(q.base, q.settings)
  local each = string.sub(args[4], 1, 5) == 'each '
  if each then args[4] = string.sub(args[4], 6) end
  local first = q.sent == 0
  reply = send_plain(q, args) or send_any(q, args, each)
  if first then reply[3] = reply[3] + 2 end
  HF.save(q)
  HF.remember(keys[1], args[1], args[2], reply)
  return reply
end
