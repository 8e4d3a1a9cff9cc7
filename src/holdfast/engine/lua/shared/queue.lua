--[[ The queue's own hash: settings, state and counters.

  `settings` is JSON as set by configure; it is decoded once and remembered by its text. `last` tells of the
  last single send (memory.lua), `sweep` how far a search for expired messages has come (sweep.lua).
  `state` is one packed string: HMGET of two dozen separate fields
  took 10 µs where that of three took 4. A shorter string (written by an older revision) is padded with zeros, so a
  new counter goes to the end.

  `late`: until when every named call must look whether it was made before (memory.lua). `soonest`: see sweep.lua.

  HF.open(base) reads it and the clock; HF.save(q) writes it back, once, last.
  `kinds` remembers which flags messages of this queue ever had, so that the common case need not look
  at each. Times are ms; 0 means none. Adding a field? Also: stats.lua, replies.stats.                   ]]

local STATE = '>' .. 'I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6I6'
local SIZE = 31 * 6
local LATE = 29 * 6 + 1

local remembered, how_many = {}, 0

local function settings_of(text)
  if not text then return HF.DEFAULTS end
  local found = remembered[text]
  if found then return found end
  found = cjson.decode(text)
  -- Were these set by somebody, or are they the defaults?
  local lease, receives = found.lease_ms or 0, found.max_receives or 0
  for name, value in pairs(HF.DEFAULTS) do
    if found[name] == nil then found[name] = value end
  end
  found.own_lease_ms, found.own_max_receives = lease, receives
  if how_many > 256 then remembered, how_many = {}, 0 end
  remembered[text], how_many = found, how_many + 1
  return found
end

-- Which shard of its queue this is.
function HF.shard(base)
  if not string.find(base, '#', 1, true) then return 0 end
  return tonumber(string.match(base, '^[^}]*#(%d+)}$') or 0)
end

-- A shard that its queue has given up, or does not have yet, takes nothing new: nobody would look for it there.
-- One that was never told anything is none, since the first one alone decides how many there are.
function HF.check_shard(base, settings)
  if HF.shard(base) >= settings.shards and HF.shard(base) > 0 then
    error({ err = string.format('RESHARDED %d is how many shards the queue has, and this is none of them: send to one of those', settings.shards) })
  end
end

local function clock_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
HF.clock_ms = clock_ms

-- The server's time, also where a test has stopped the queue's clock.
function HF.real_ms(q) return q.clock == 0 and q.now or clock_ms() end

-- A queue that is deleted leaves its last id and batch behind for as long as the clock is not past them, since
-- neither may be given again. HF.open of a queue that has no state takes them up.
function HF.leave_numbers(q)
  local ahead = math.max(q.ms - q.now, math.floor(q.batch / HF.BATCHES_A_MS) - HF.real_ms(q))
  if q.ms + q.batch > 0 and ahead >= 0 then
    redis.call('SET', q.base .. K.last_numbers, struct.pack('>I6I4I6', q.ms, q.seq, q.batch), 'PX', ahead + 1)
  end
end

local function take_up_numbers(q)
  local left = redis.call('GET', q.base .. K.last_numbers)
  if left then q.ms, q.seq, q.batch = struct.unpack('>I6I4I6', left) end
end

-- `now`: the time, where the caller has asked for it already. `named`: for a call with a name, see HF.by_name.
function HF.open(base, now, named)
  local field = named and redis.call('HMGET', base, 'state', 'settings', 'done') or redis.call('HMGET', base, 'state', 'settings')
  local s = field[1] or ''
  if #s < SIZE then s = s .. string.rep('\0', SIZE - #s) end
  local ms, seq, batch, next, levels, paused_until, waiting, waiting_dead, listening,
    grouped, tokens, tombs, back, clock,
    sent, received, acked, requeued, buried, dead_received, redriven,
    expired, removed, duplicates, dropped, extended, kinds, leased, reserved, late, soonest = struct.unpack(STATE, s)
  -- One constructor: a table that grows field by field is made anew five times on the way.
  local q = {
    base = base, exists = field[1] or field[2], settings = settings_of(field[2]), now = clock,
    ms = ms, seq = seq, batch = batch, next = next, levels = levels, paused_until = paused_until,
    waiting = waiting, waiting_dead = waiting_dead, listening = listening,
    grouped = grouped, tokens = tokens, tombs = tombs, back = back, clock = clock,
    sent = sent, received = received, acked = acked, requeued = requeued, buried = buried,
    dead_received = dead_received, redriven = redriven, expired = expired, removed = removed,
    duplicates = duplicates, dropped = dropped, extended = extended, kinds = kinds, leased = leased,
    reserved = reserved, late = late, soonest = soonest,
    done = field[3], put_off = named, unsaved = false,
  }
  if clock == 0 and now then
    q.now = now
  elseif clock == 0 then
    q.now = clock_ms()
  end
  if not field[1] then take_up_numbers(q) end
  return q
end

local function packed(q)
  return struct.pack(STATE,
    q.ms, q.seq, q.batch, q.next, q.levels, q.paused_until, q.waiting, q.waiting_dead, q.listening,
    q.grouped, q.tokens, q.tombs, q.back, q.clock,
    q.sent, q.received, q.acked, q.requeued, q.buried, q.dead_received, q.redriven,
    q.expired, q.removed, q.duplicates, q.dropped, q.extended, q.kinds, q.leased,
    q.reserved, q.late, q.soonest)
end

-- `now`: also where it is put off, until HF.by_name does it.
function HF.save(q, now)
  if q.put_off and not now then
    q.unsaved = true
  else
    redis.call('HSET', q.base, 'state', packed(q))
  end
end

-- What was put off, and with it which call that was.
function HF.save_done(q, done)
  redis.call('HSET', q.base, 'state', packed(q), 'done', done)
end

-- What one plain message more has to know: neither all of the state nor a table, for each string and each table
-- that is made costs a lone sender half a microsecond. Nil for a queue that has none yet, or one of an older
-- revision. The places in the string are those of STATE.
local GLANCE = '>I6I6' .. 'xxxxxxxxxxxx' .. 'I6' .. 'xxxxxx' .. 'I6' .. 'xxxxxx' .. 'I6'
  .. 'xxxxxxxxxxxxxxxxxxxxxxxx' .. 'I6I6'

function HF.glance(base)
  local field = redis.call('HMGET', base, 'state', 'settings', 'last')
  local s, text = field[1], field[2]
  if not s or #s ~= SIZE then return nil end
  local ms, seq, levels, waiting, listening, now, sent = struct.unpack(GLANCE, s)
  if now == 0 then now = clock_ms() end
  local settings = text and (remembered[text] or settings_of(text)) or HF.DEFAULTS
  return s, settings, field[3] or '', now, ms, seq, levels, waiting, listening, sent, struct.unpack('>I6', s, LATE)
end

-- The state `s` with one message more, the `sent`th, at this level. `last`: whose that was, see intake.lua.
function HF.save_glance(base, s, ms, seq, levels, level, sent, last)
  local sub, marked = string.sub, HF.with_level(levels, level)
  if marked == levels then
    s = struct.pack('>I6I6c72I6c0', ms, seq, sub(s, 13, 84), sent, sub(s, 91))
  else
    s = struct.pack('>I6I6c12I6c54I6c0', ms, seq, sub(s, 13, 24), marked, sub(s, 31, 84), sent, sub(s, 91))
  end
  redis.call('HSET', base, 'state', s, 'last', last)
end

-- The same for one who only settles. `calm`: nobody listens, and no call was repeated lately.
local ONE, FOUR = 'xxxxxx', 'xxxxxxxxxxxxxxxxxxxxxxxx'
local GLANCE_HELD = '>' .. FOUR .. FOUR .. 'I6' .. FOUR .. 'I6' .. ONE .. ONE .. 'I6'
  .. FOUR .. FOUR .. ONE .. 'I6I6' .. ONE .. 'I6'

function HF.glance_held(base)
  local field = redis.call('HMGET', base, 'state', 'settings', 'done')
  local s = field[1]
  if not s or #s ~= SIZE then return nil end
  local listening, now, acked, kinds, leased, late = struct.unpack(GLANCE_HELD, s)
  if now == 0 and (listening > 0 or late > 0) then now = clock_ms() end
  return s, settings_of(field[2]), field[3], acked, kinds, leased, listening <= now and late <= now
end

function HF.save_held(base, s, acked, leased, done)
  local sub = string.sub
  s = struct.pack('>c96I6c60I6c0', sub(s, 1, 96), acked, sub(s, 103, 162), leased, sub(s, 169))
  redis.call('HSET', base, 'state', s, 'done', done)
end

-- How long a delivery is leased: what was asked for (ms; 0: until settled), the queue's setting (-1), or
-- that only if somebody set it (-2).
function HF.lease_for(q, asked)
  if asked == -1 then return q.settings.lease_ms end
  if asked == -2 then return q.settings.own_lease_ms or 0 end
  return asked
end

-- Something will be due at `at`: receive must look by then. True if that is earlier than before.
function HF.due_at(q, at)
  if q.next == 0 or at < q.next then
    q.next = at
    return true
  end
  return false
end

-- Ms until a look at this queue may find more than now: something due, or the end of a pause. -1:
-- never by itself.
function HF.next_in(q)
  if q.paused_until > q.now then
    return q.paused_until < HF.FOREVER and q.paused_until - q.now or -1
  end
  return q.next > 0 and math.max(q.next - q.now, 0) or -1
end

-- A variadic command over list[from..to], in pieces that `unpack` can carry and
-- that keep pairs together.
function HF.each(command, key, list, from, to)
  for i = from, to, 1000 do
    redis.call(command, key, unpack(list, i, math.min(i + 999, to)))
  end
end

-- HMGET over any number of fields, as one table.
function HF.hmget(key, fields)
  local n = #fields
  if n <= 1000 then return redis.call('HMGET', key, unpack(fields)) end
  local all = {}
  for i = 1, n, 1000 do
    local part = redis.call('HMGET', key, unpack(fields, i, math.min(i + 999, n)))
    for j = 1, #part do all[i + j - 1] = part[j] end
  end
  return all
end

-- An argument that must be a whole number within bounds. Everything is checked before any write.
function HF.integer(text, what, low, high)
  local n = tonumber(text)
  if not n or n % 1 ~= 0 or n < low or n > high then
    error({ err = string.format('INVALID %s must be a whole number from %.0f to %.0f', what, low, high) })
  end
  return n
end
