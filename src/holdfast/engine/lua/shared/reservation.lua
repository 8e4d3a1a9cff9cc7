--[[ The reserved state: batches with a name, for readers that may ask for the same one again.

  A reader (owner) takes its batches as reservations 1, 2, 3 …; each is filled until it is sealed, read
  as often as need be, and settled by commit, which acks all of it. Its messages lie in one list,
  untouched, so that a range of them is one LRANGE.

    reservations  owner      → committed u48, settled u48, planned u48, seen u48
                  owner/seq  → sealed u8, rows u48, since u48, ends u48 (0: never by itself)

  planned is the last one ever begun, committed the last that its owner has done with, and those up to
  settled are gone. So a reader that starts again from an old note of where it was finds out, instead
  of getting new messages under an old name: reserve refuses all up to committed.

  One whose release has begun has RELEASED as its end, and an entry in `reservation_ends` that is long past:
  whoever comes next goes on with it, a piece per call, and nothing is handed out until all of it is back.

  A reservation, not its messages, holds the places in their groups (`places`): it may have several
  messages of one group, in their order, and nobody else has one of them meanwhile.
  What is `condemned` dies when the rest is acked.                                              ]]

local STEP = 1000
local KEPT_MS = 90 * 24 * 3600 * 1000

-- As the end of a reservation: it is being given back.
local RELEASED = 1

function HF.is_released(r) return r.ends == RELEASED end

local function failed(text) error({ err = 'RESERVATION ' .. text }) end

HF.reservation_failed = failed

function HF.reader_is_behind(owner, seq, o)
  failed(string.format('%s/%.0f is committed already, up to %.0f: the reader starts from an older place than it had reached '
    .. '(a checkpoint restored from a copy?); start it with the latest one', owner, seq, o.committed))
end

function HF.owner_name(text)
  if type(text) ~= 'string' or #text < 1 or #text > 200 or string.find(text, '/', 1, true) then
    error({ err = "INVALID an owner's name must have 1 to 200 bytes and no '/'" })
  end
  return text
end

function HF.owner(q, name)
  local v = redis.call('HGET', q.base .. K.reservations, name)
  if not v then return { name = name, committed = 0, settled = 0, planned = 0 } end
  local committed, settled, planned = struct.unpack('>I6I6I6', v)
  return { name = name, committed = committed, settled = settled, planned = planned, known = true }
end

function HF.keep_owner(q, o)
  redis.call('HSET', q.base .. K.reservations, o.name, struct.pack('>I6I6I6I6', o.committed, o.settled, o.planned, q.now))
end

-- Owners that nobody has heard of for long, and that hold nothing: their memory is not worth keeping. Looks at
-- some hundred, beginning anywhere.
function HF.forget_owners(q)
  local page = redis.call('HSCAN', q.base .. K.reservations, redis.call('TIME')[2], 'COUNT', 100)[2]
  for i = 1, #page, 2 do
    if not string.find(page[i], '/', 1, true) then
      local _, settled, planned, seen = struct.unpack('>I6I6I6I6', page[i + 1])
      if settled == planned and seen + KEPT_MS < q.now then redis.call('HDEL', q.base .. K.reservations, page[i]) end
    end
  end
end

-- When a reservation goes back, as a score: those that are being released before all others; those that never
-- do after. Higher ones of an owner come later, and go back first.
local function ends_at(r)
  local seq = tonumber(string.match(r.name, '%d+$'))
  if r.ends == RELEASED then return math.min(seq, 10 ^ 11) end
  return r.ends > 0 and r.ends or HF.FOREVER + seq
end

local function list_end(q, r)
  local at = ends_at(r)
  redis.call('ZADD', q.base .. K.reservation_ends, at, r.name)
  if at < HF.FOREVER then HF.due_at(q, at) end
end

local function named(q, name, v)
  local sealed, rows, since, ends = struct.unpack('>BI6I6I6', v)
  return { name = name, sealed = sealed == 1, rows = rows, since = since, ends = ends,
    list = q.base .. K.reserved .. name, places = q.base .. K.places .. name, condemned = q.base .. K.condemned .. name }
end

function HF.reservation(q, owner, seq)
  local name = owner .. '/' .. string.format('%.0f', seq)
  local v = redis.call('HGET', q.base .. K.reservations, name)
  return v and named(q, name, v)
end

function HF.new_reservation(q, owner, seq, ttl_ms)
  local ends = ttl_ms > 0 and q.now + ttl_ms or 0
  local r = named(q, owner .. '/' .. string.format('%.0f', seq), struct.pack('>BI6I6I6', 0, 0, q.now, ends))
  HF.fit_key(r.list, 'list')
  HF.fit_key(r.places, 'hash')
  HF.fit_key(r.condemned, 'hash')
  list_end(q, r)
  return r
end

function HF.keep_reservation(q, r)
  redis.call('HSET', q.base .. K.reservations, r.name, struct.pack('>BI6I6I6', r.sealed and 1 or 0, r.rows, r.since, r.ends))
end

local function drop(q, r)
  redis.call('UNLINK', r.list, r.condemned, r.places)
  redis.call('HDEL', q.base .. K.reservations, r.name)
  redis.call('ZREM', q.base .. K.reservation_ends, r.name)
end

-- Give up to STEP groups their places back. True when there are none left.
local function leave_groups(q, r, first)
  local page = redis.call('HSCAN', r.places, 0, 'COUNT', STEP)[2]
  for i = 1, #page, 2 do
    for _ = 1, tonumber(page[i + 1]) do HF.group_settle(q, page[i], first) end
    redis.call('HDEL', r.places, page[i])
  end
  if #page > 0 then HF.wake(q) end
  return redis.call('EXISTS', r.places) == 0
end

-- A piece of a reservation leaves for good: `gone(records)` says how. How many, and true when all of it has.
local function let_go(q, r, gone)
  local records = redis.call('LRANGE', r.list, 0, STEP - 1)
  if #records > 0 then
    HF.fit(q, records)
    HF.forget(q, gone(records))
    redis.call('LTRIM', r.list, #records, -1)
    q.reserved = q.reserved - #records
    return #records, false
  end
  if not leave_groups(q, r, false) then return 0, false end
  drop(q, r)
  return 0, true
end

-- Commit a piece: acked, but for those that are condemned.
function HF.commit_reserved(q, r)
  local special = q.kinds % 4 >= HF.GROUP or q.kinds >= HF.UNIQUE or HF.noting(q)
  if not special and redis.call('EXISTS', r.condemned) == 0 then
    local n = redis.call('LLEN', r.list)
    drop(q, r)
    q.reserved, q.acked = q.reserved - n, q.acked + n
    return n, true
  end
  return let_go(q, r, function(records)
    local ids, done, dying = {}, {}, {}
    for i, m in ipairs(records) do ids[i] = string.sub(m, 1, 10) end
    local why = HF.hmget(r.condemned, ids)
    for i, m in ipairs(records) do
      if why[i] then
        dying[why[i]] = dying[why[i]] or {}
        table.insert(dying[why[i]], HF.with_receives(m, HF.receives(m) + 1))
      else
        done[#done + 1] = m
      end
    end
    for reason, list in pairs(dying) do HF.bury(q, list, reason, '', true) end
    q.acked = q.acked + #done
    HF.note(q, 'acked', done)
    return done
  end)
end

-- Purge a piece.
function HF.purge_reserved(q, r)
  return let_go(q, r, function(records)
    q.removed = q.removed + #records
    HF.note(q, 'removed', records)
    return records
  end)
end

-- From here on it is being given back, whoever does it. How many messages that are; 0 if it was before.
function HF.begin_release(q, r)
  if HF.is_released(r) then return 0 end
  r.ends = RELEASED
  HF.keep_reservation(q, r)
  list_end(q, r)
  return redis.call('LLEN', r.list)
end

-- A piece goes back to where it came from, before all others, last ones first so that their order stays.
-- How many, and true when all of it has.
function HF.release_reserved(q, r, reason)
  HF.begin_release(q, r)
  local records = redis.call('LRANGE', r.list, -STEP, -1)
  if #records == 0 then
    if not leave_groups(q, r, true) then return 0, false end
    drop(q, r)
    return 0, true
  end
  HF.fit(q, records)
  local plain = {}
  for i = #records, 1, -1 do
    local group = HF.group(records[i])
    if group then
      redis.call('LPUSH', q.base .. K.group .. group, records[i])
      HF.may_expire(q, records[i])
      q.grouped, q.back = q.grouped + 1, q.back + 1
    end
  end
  for i = 1, #records do
    if not HF.group(records[i]) then plain[#plain + 1] = records[i] end
  end
  HF.ready_push(q, plain, true)
  redis.call('LTRIM', r.list, 0, -#records - 1)
  q.reserved, q.requeued = q.reserved - #records, q.requeued + #records
  HF.note(q, 'requeued', records, nil, reason)
  HF.wake(q)
  return #records, false
end

-- What an owner has, its last one first.
function HF.reservations_of(q, o)
  local found = {}
  for top = o.planned, o.settled + 1, -1000 do
    local names = {}
    for seq = top, math.max(top - 999, o.settled + 1), -1 do names[#names + 1] = o.name .. '/' .. string.format('%.0f', seq) end
    for i, v in ipairs(HF.hmget(q.base .. K.reservations, names)) do
      if v then found[#found + 1] = named(q, names[i], v) end
    end
  end
  return found
end

-- One of an older revision, which listed those alone that end by themselves. Looks at some 10,000 names at most,
-- beginning anywhere.
local function unlisted_reservation(q)
  local cursor, looked, rounds = redis.call('TIME')[2], 0, 0
  repeat
    local page = redis.call('HSCAN', q.base .. K.reservations, cursor, 'COUNT', 100)
    cursor, looked = page[1], looked + 1 + #page[2] / 2
    if cursor == '0' then rounds = rounds + 1 end
    for i = 1, #page[2], 2 do
      if string.find(page[2][i], '/', 1, true) then return named(q, page[2][i], page[2][i + 1]) end
    end
  until looked >= 10000 or rounds == 2
end

-- One reservation of any owner; none of the same owner is later.
function HF.any_reservation(q)
  local name = redis.call('ZREVRANGE', q.base .. K.reservation_ends, 0, 0)[1]
  if not name then return q.reserved > 0 and unlisted_reservation(q) or nil end
  local v = redis.call('HGET', q.base .. K.reservations, name)
  -- A name without a reservation: the list was left by a call that failed.
  return named(q, name, v or struct.pack('>BI6I6I6', 0, 0, 0, RELEASED))
end

-- Those whose time is over go back, a piece per call, the last one first; after leases that have ended.
function HF.reservations_due(q)
  if redis.call('ZCOUNT', q.base .. K.deadlines, '-inf', q.now) > 0 then return end
  local name = redis.call('ZREVRANGEBYSCORE', q.base .. K.reservation_ends, q.now, '-inf', 'LIMIT', 0, 1)[1]
  if not name then return end
  local v = redis.call('HGET', q.base .. K.reservations, name)
  if v then
    local r = named(q, name, v)
    HF.release_reserved(q, r, HF.is_released(r) and 'the reservation was released' or 'the reservation ended without a commit')
  else
    redis.call('ZREM', q.base .. K.reservation_ends, name)
  end
end
