--[[ reserve: fill a named reservation with ready messages, a piece per call, until it is sealed. Once
  sealed it stays as it is, and calling again changes nothing.
  KEYS   queue
  ARGV   owner, seq (1 for its first, then one more each), rows (how many it may have in all), chunk (how
         many to take in this call, about), ttl_ms (0: it never goes back by itself), adopt (1: take an
         owner that this queue does not know at its word)
  Reply  rows in it so far, 1 if it is sealed; else the caller must call again
  Errors INVALID, RESERVATION
  Cost   O(chunk); O(1) for all where whole lists can be taken as they are
  Flags  allow-oom                                                                              ]]

local STEP = 1000

-- Only whole messages of one priority, which nobody need look at: moved as they are.
local function take_plain(q, r, level, want, room)
  local key = q.base .. K.ready .. level
  local size = redis.call('LLEN', key)
  if r.rows == 0 and size > 0 and size <= room and redis.call('RENAMENX', key, r.list) == 1 then
    q.levels = 0
    return size
  end
  local n = 0
  while n < want do
    local records = redis.call('LRANGE', key, 0, math.min(want - n, STEP) - 1)
    if #records == 0 then break end
    redis.call('RPUSH', r.list, unpack(records))
    redis.call('LTRIM', key, #records, -1)
    n = n + #records
  end
  if n < want then q.levels = 0 end
  return n
end

local function take(q, r, want)
  local pick = HF.ready_pick(q, want, true)
  HF.each('RPUSH', r.list, pick.records, 1, pick.n)
  for group, places in pairs(pick.held) do redis.call('HINCRBY', r.places, group, places) end
  HF.ready_drop(q, pick)
  HF.note(q, 'received', pick.records, 0, 'reserved')
  return pick.n
end

local function begin(q, owner, seq, ttl_ms, adopt)
  local o = HF.owner(q, owner)
  if seq <= o.committed then
    HF.reader_is_behind(owner, seq, o)
  end
  local r = HF.reservation(q, owner, seq)
  if r and not HF.is_released(r) then return r end
  if seq <= o.planned then
    HF.reservation_failed(string.format('%s/%.0f was given back, and its messages may be with others; start the reader '
      .. 'anew, with a new checkpoint', owner, seq))
  end
  if seq > o.planned + 1 and not adopt then
    HF.reservation_failed(string.format('%s/%.0f cannot follow %.0f: this queue does not remember the ones between (was it '
      .. 'deleted, or its server restored from a copy?); start the reader anew, with a new checkpoint', owner, seq, o.planned))
  end
  if not o.known then HF.forget_owners(q) end
  r = HF.new_reservation(q, owner, seq, ttl_ms)
  if seq > o.planned + 1 then o.committed, o.settled = seq - 1, seq - 1 end
  o.planned = seq
  HF.keep_reservation(q, r)
  HF.keep_owner(q, o)
  return r
end

function T.reserve(keys, args)
  local owner = HF.owner_name(args[1])
  local seq = HF.integer(args[2], 'seq', 1, HF.FOREVER)
  local rows = HF.integer(args[3], 'rows', 0, HF.FOREVER)
  local chunk = HF.integer(args[4], 'chunk', 1, 10000)
  local ttl_ms = HF.integer(args[5], 'ttl_ms', 0, HF.FOREVER)
  local adopt = HF.integer(args[6], 'adopt', 0, 1) == 1
  local q = HF.open(keys[1])
  HF.fit(q, {})
  HF.fit_bodies(q)
  local _, behind = HF.catch_up(q)
  local r = begin(q, owner, seq, ttl_ms, adopt)
  if r.sealed or behind then
    HF.save(q)
    return { r.rows, r.sealed and 1 or 0 }
  end

  local room, got = rows - r.rows, 0
  local want = math.min(chunk, room)
  if want > 0 and q.levels > 0 and q.paused_until <= q.now then
    local level = HF.only_level(q)
    if level and HF.ready_is_plain(q) and not HF.noting(q) then
      got = take_plain(q, r, level, want, room)
    else
      got = take(q, r, want)
    end
  end
  r.rows, q.reserved, q.received = r.rows + got, q.reserved + got, q.received + got
  r.sealed = got < want or r.rows >= rows
  HF.keep_reservation(q, r)
  HF.save(q)
  return { r.rows, r.sealed and 1 or 0 }
end
