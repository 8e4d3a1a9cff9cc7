--[[ Topics: what subscriptions of one topic share.

  The topic's base is a queue of its own, which holds what is published while nobody is subscribed.
  A subscription is a queue too, at a *seat* below it: base .. '/consumer' (shared by its peers) or
  base .. '/consumer/peer' (each peer its own). All lie in one hash slot, so a publish is one call.

    seats    seat → mode u8, state u8, since u48, then the filter as JSON or nothing
    seen     peer ('/consumer/peer') → when it last observed, ms
    bodies   id → envelope, of a message that several seats took
    takers   id → how many of them still have it; the last to let go takes the envelope away

  A seat is *arriving* while what the topic held is being moved to it, a piece per call, and *leaving*
  while it is being emptied: in neither state does it get new messages. The topic's last one is *returning* while its
  messages go back to the topic; it gets new ones to the end, and gives none out. Whoever began with one of these
  may never come back: the next who subscribes, tends or observes goes on with it, before anything else, so that
  messages stay in their order.                                                                  ]]

HF.BROADCAST, HF.SHARED = 1, 2
HF.ACTIVE, HF.ARRIVING, HF.LEAVING, HF.RETURNING = 0, 1, 2, 3

-- As HF.open, of a topic itself: what it holds for subscribers to come ends with its retention.
function HF.open_topic(base)
  local t = HF.open(base)
  t.retention_ms = t.settings.retention_ms
  return t
end

function HF.topic_base(q) return string.match(q.base, '^.-}') end

function HF.pack_seat(seat)
  return struct.pack('>BBI6', seat.mode, seat.state, seat.since) .. seat.filter
end

function HF.unpack_seat(tail, value)
  local mode, state, since = struct.unpack('>BBI6', value)
  return { tail = tail, mode = mode, state = state, since = since, filter = string.sub(value, 9),
    consumer = string.match(tail, '^/[^/]*') }
end

function HF.seats(base)
  local list, found = {}, redis.call('HGETALL', base .. K.seats)
  for i = 1, #found, 2 do list[#list + 1] = HF.unpack_seat(found[i], found[i + 1]) end
  table.sort(list, function(a, b) return a.tail < b.tail end)
  return list
end

function HF.keep_seat(base, seat)
  redis.call('HSET', base .. K.seats, seat.tail, HF.pack_seat(seat))
end

-- The seat of a peer: its consumer's, if peers share one, or its own. Nil if it has none to sit on.
function HF.seat_of(base, consumer, peer)
  for _, tail in ipairs({ consumer, peer }) do
    local value = redis.call('HGET', base .. K.seats, tail)
    local seat = value and HF.unpack_seat(tail, value)
    if seat and seat.state < HF.LEAVING then return seat end
  end
end

function HF.must_sit(base, consumer, peer)
  local seat = HF.seat_of(base, consumer, peer)
  if seat then return seat end
  error({ err = 'NOSUBSCRIPTION ' .. string.sub(peer, 2) .. ' (consumer/peer) is not subscribed to this topic; subscribe it first' })
end

-- Consumer and peer as they are in keys: '/consumer' and '/consumer/peer', a peer's name may be empty.
function HF.check_tails(consumer, peer)
  if type(consumer) ~= 'string' or not string.match(consumer, '^/[^/:]+$') then
    error({ err = "INVALID a consumer must be '/' and its escaped id" })
  end
  if peer ~= nil and (string.match(peer, '^/[^/]*') ~= consumer or not string.match(peer, '^/[^/:]+/[^/:]*$')) then
    error({ err = "INVALID a peer must be its consumer, '/', and its escaped name" })
  end
  return consumer, peer
end

-- The same for a caller who believes to sit at `tail`, if it says so.
function HF.must_sit_at(base, consumer, peer, tail)
  local seat = HF.must_sit(base, HF.check_tails(consumer, peer or ''))
  if tail and tail ~= seat.tail then
    error({ err = 'NOSUBSCRIPTION the consumer was subscribed anew in another mode; get the subscription anew too' })
  end
  return seat
end

-- A peer that goes on waiting must be seen again well before it would be taken for silent, or its seat for
-- forgotten: ms until it has to look again, for that or because something falls due in `next_ms` (-1: nothing
-- will). Bounded from below, so that nobody spins who has set a time-out of nearly nothing.
local SOONEST = 20

function HF.seen_by(base, next_ms)
  local set = HF.open(base).settings
  local silent = set.retention_ms > 0 and math.min(set.peer_timeout_ms, set.retention_ms) or set.peer_timeout_ms
  local ms = math.max(math.floor(silent / 2), SOONEST)
  return next_ms < 0 and ms or math.min(next_ms, ms)
end

-- When each of these peers of the topic last observed, or false: in their order.
function HF.seen_at(base, peers)
  local times = {}
  for from = 1, #peers, 1000 do
    for i, at in ipairs(redis.call('ZMSCORE', base .. K.seen, unpack(peers, from, math.min(from + 999, #peers)))) do
      times[from + i - 1] = tonumber(at) or false
    end
  end
  return times
end

-- When each peer of the topic last observed: peer → ms. As many as there are: not for what is called often.
function HF.last_seen(base)
  local seen, found = {}, redis.call('ZRANGE', base .. K.seen, 0, -1, 'WITHSCORES')
  for i = 1, #found, 2 do seen[found[i]] = tonumber(found[i + 1]) end
  return seen
end

-- Several seats take this message: its envelope is kept once.
function HF.keep_bodies(base, fields, counts)
  HF.each('HSET', base .. K.bodies, fields, 1, #fields)
  HF.each('HSET', base .. K.takers, counts, 1, #counts)
end

function HF.let_go_ids(q, ids)
  if #ids == 0 then return end
  local base = HF.topic_base(q)
  local counts, left, gone = HF.hmget(base .. K.takers, ids), {}, {}
  for i = 1, #ids do
    local n = tonumber(counts[i] or 0)
    if n > 1 then
      left[#left + 1], left[#left + 2] = ids[i], n - 1
    elseif n == 1 then
      gone[#gone + 1] = ids[i]
    end
  end
  if #left > 0 then HF.each('HSET', base .. K.takers, left, 1, #left) end
  if #gone > 0 then
    HF.each('HDEL', base .. K.takers, gone, 1, #gone)
    HF.each('HDEL', base .. K.bodies, gone, 1, #gone)
  end
end

-- Messages that refer to an envelope at the topic are done with it.
function HF.let_go(q, records)
  local ids = {}
  for i = 1, #records do
    if string.byte(records[i], 14) >= HF.REF then ids[#ids + 1] = string.sub(records[i], 1, 10) end
  end
  HF.let_go_ids(q, ids)
end

-- Where the message starts in a value: of a list, of `leased`, of `dead`.
function HF.in_record() return 1 end

function HF.in_leased(v)
  return string.byte(v, 1) < HF.DEAD and 10 or 10 + HF.dead_size(v, 10)
end

function HF.in_dead(v) return 1 + HF.dead_size(v, 1) end

-- Put the envelopes into those of list[from], list[from + step] … that only refer to theirs. One whose
-- envelope is not there stays as it is, and will fail its checksum.
function HF.fill(q, list, where, from, step)
  local ids, places = {}, {}
  for i = from or 1, #list, step or 1 do
    local v, at = list[i], where(list[i])
    if string.byte(v, at + 13) >= HF.REF then
      ids[#ids + 1], places[#places + 1] = string.sub(v, at, at + 9), i
    end
  end
  if #ids == 0 then return list end
  local found = HF.hmget(HF.topic_base(q) .. K.bodies, ids)
  for j, i in ipairs(places) do
    local v = list[i]
    if found[j] then list[i] = string.sub(v, 1, where(v) + 11) .. found[j] end
  end
  return list
end

-- Move up to 1,000 messages of `from` to `to`, both of one topic, in order; true if something was moved
-- or dropped. `wanted(record)` says which to keep, and whether it is too old; the others are gone.
local STEP, LOOK = 1000, 10000

local function split(from, records, wanted, dead)
  if not wanted then return records end
  local kept, unwanted = {}, {}
  local whole = {}
  for i = 1, #records do whole[i] = records[i] end
  HF.fill(from, whole, HF.in_record)
  for i, r in ipairs(records) do
    local wants, old = wanted(whole[i])
    local list = wants and (dead or not old) and kept or unwanted
    list[#list + 1] = r
  end
  from.dropped = from.dropped + #unwanted
  HF.forget(from, unwanted)
  return kept
end

local function land(to, records)
  HF.fit(to, records)
  for _, r in ipairs(records) do HF.mark_kinds(to, r) end
  HF.ready_push(to, records, false)
  if #records > 0 then HF.wake(to) end
end

local moves = {}

function moves.leased(from, to, wanted)
  local held, records, ids, dead = {}, {}, {}, {}
  local entries, looked = redis.call('ZRANGE', from.base .. K.batches, 0, STEP - 1, 'WITHSCORES'), 0
  for e = 1, #entries, 2 do
    if #held >= STEP or looked >= LOOK then break end
    local batch, in_batch = struct.pack('>I6', tonumber(entries[e + 1])), HF.ids_in(entries[e])
    looked = looked + #in_batch
    HF.loosen(from, batch)
    for i, v in ipairs(HF.leased_get(from, in_batch)) do
      if v and string.sub(v, 2, 7) == batch then
        held[#held + 1] = { in_batch[i], v }
        local r, head = HF.unleash(v)
        if head then
          ids[#ids + 1], dead[#dead + 1] = in_batch[i], head .. r
        else
          records[#records + 1] = r
        end
      end
    end
  end
  if #held == 0 then return false end
  land(to, split(from, records, wanted))
  HF.rebury(to, ids, dead)
  HF.release(from, held)
  HF.groups_settle(from, records)
  return true
end

function moves.ready(from, to, wanted)
  local pick = HF.ready_pick(from, STEP)
  if pick.examined + #pick.idle == 0 then return false end
  land(to, split(from, pick.records, wanted))
  HF.ready_drop(from, pick)
  HF.groups_settle(from, pick.records)
  return true
end

-- A delayed retry keeps its place in its group, or the next one would overtake it.
local function retry_of(r) return HF.keeps_place(r) and HF.group(r) end

function moves.delayed(from, to, wanted)
  local found = redis.call('ZRANGE', from.base .. K.due, 0, STEP - 1, 'WITHSCORES')
  if #found == 0 then return false end
  local ids, at = {}, {}
  for i = 1, #found, 2 do ids[#ids + 1], at[found[i]] = found[i], tonumber(found[i + 1]) end
  local records = HF.hmget(from.base .. K.delayed, ids)
  local kept, times = split(from, records, wanted), {}
  HF.fit(to, kept)
  for i, r in ipairs(kept) do
    times[i] = at[string.sub(r, 1, 10)]
    HF.mark_kinds(to, r)
    if retry_of(r) then redis.call('HINCRBY', to.base .. K.slots, HF.group(r), 1) end
  end
  HF.delay(to, kept, times)
  for _, r in ipairs(records) do if retry_of(r) then HF.group_settle(from, HF.group(r)) end end
  HF.each('HDEL', from.base .. K.delayed, ids, 1, #ids)
  HF.each('ZREM', from.base .. K.due, ids, 1, #ids)
  return true
end

-- Given back first; then they are ready ones.
function moves.reserved(from)
  local r = HF.any_reservation(from)
  if r then HF.release_reserved(from, r, 'the subscription has ended') end
  return r ~= nil
end

function moves.dead(from, to, wanted)
  local ids, values = HF.dead_get(from, redis.call('ZRANGE', from.base .. K.died, 0, STEP - 1))
  if #ids == 0 then return false end
  HF.fit(to, {})
  local mine, kept, records = {}, {}, split(from, HF.dead_records(values), wanted, true)
  local at = {}
  for i, id in ipairs(ids) do at[id] = values[i] end
  for i, r in ipairs(records) do
    mine[i] = string.sub(r, 1, 10)
    kept[i] = at[mine[i]]
    HF.mark_kinds(to, r)
  end
  HF.rebury(to, mine, kept)
  HF.dead_drop(from, ids)
  return true
end

-- Oldest first: what was in hand, then retries, which hold their group back, then what was ready.
function HF.move(from, to, wanted)
  HF.fit_bodies(from)
  for _, state in ipairs({ 'reserved', 'leased', 'delayed', 'ready', 'dead' }) do
    if moves[state](from, to, wanted) then
      HF.save(from)
      HF.save(to)
      return true
    end
  end
  return false
end

-- Take a piece of a seat's messages away, and the seat itself when it is empty. True when it is gone.
function HF.clear_seat(base, seat)
  local below = base .. seat.tail
  for _, state in ipairs({ 'ready', 'delayed', 'leased', 'reserved', 'dead' }) do
    local gone = T.purge({ below }, { state })
    if gone[1] > 0 or gone[2] == 1 then return false, gone[1] end
  end
  HF.drop_seat(base, seat)
  return true, 0
end

function HF.drop_seat(base, seat)
  T.delete({ base .. seat.tail }, {})
  redis.call('HDEL', base .. K.seats, seat.tail)
  if seat.mode == HF.BROADCAST then
    redis.call('ZREM', base .. K.seen, seat.tail)
  else
    for peer in pairs(HF.last_seen(base)) do
      if string.match(peer, '^/[^/]*') == seat.tail then redis.call('ZREM', base .. K.seen, peer) end
    end
  end
end

-- What a new seat takes of what the topic held: messages that are not too old, and dead letters however old.
local function wanted(t, seat)
  local oldest = t.settings.retention_ms > 0 and t.now - t.settings.retention_ms or 0
  return function(r)
    return HF.matches(seat.filter, HF.attributes(r)), struct.unpack('>I6', r) < oldest
  end
end

-- Move a piece to a seat that is arriving; true when the topic holds nothing more, and the seat is active from
-- then on.
function HF.arrive(t, seat)
  if HF.move(t, HF.open(t.base .. seat.tail), wanted(t, seat)) then return false end
  seat.state = HF.ACTIVE
  HF.keep_seat(t.base, seat)
  return true
end

-- The seat with which somebody began and did not end, if there is one: arriving or returning.
function HF.unfinished(seats)
  for _, seat in ipairs(seats) do
    if seat.state == HF.ARRIVING or seat.state == HF.RETURNING then return seat end
  end
end

-- Go on with it, by a piece.
function HF.go_on(t, seat)
  if seat.state == HF.ARRIVING then HF.arrive(t, seat) else HF.leave(t, seat) end
end

-- A seat whose consumer is done with it, a piece per call; true when it is gone. While others are there it
-- is emptied; the last one's messages go back to the topic, which holds them for whoever comes next,
-- and it gets new ones to the end, so that their order stays.
function HF.leave(t, seat)
  local others = false
  for _, other in ipairs(HF.seats(t.base)) do
    others = others or (other.tail ~= seat.tail and other.state == HF.ACTIVE)
  end
  if others then
    if seat.state ~= HF.LEAVING then
      seat.state = HF.LEAVING
      HF.keep_seat(t.base, seat)
    end
    return HF.clear_seat(t.base, seat)
  end
  -- What has not come yet comes first: it is younger than what has, and would be the older one at the topic.
  if seat.state == HF.ARRIVING and not HF.arrive(t, seat) then return false, 0 end
  if seat.state ~= HF.RETURNING then
    seat.state = HF.RETURNING
    HF.keep_seat(t.base, seat)
  end
  if HF.move(HF.open(t.base .. seat.tail), t) then return false, 0 end
  HF.drop_seat(t.base, seat)
  return true, 0
end
