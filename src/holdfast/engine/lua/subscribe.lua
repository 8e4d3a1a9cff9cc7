--[[ subscribe: take a seat at a topic, or keep it; what the topic has held is the first one's.
  Held messages are moved a piece per call, and the seat counts when all have come.
  KEYS   topic
  ARGV   consumer ('/consumer'), peer ('/consumer/peer'), mode (broadcast | shared), filter as JSON or ''
  Reply  1 if it is done, 0 if the caller must call again
  Errors INVALID
  Cost   O(subscriptions + 1,000)                                                               ]]

-- A consumer has one mode: peers that share a seat and peers with their own would get different things.
local function check_mode(seats, consumer, mode)
  for _, seat in ipairs(seats) do
    if seat.consumer == consumer and seat.state < HF.LEAVING and seat.mode ~= mode then
      local is = seat.mode == HF.SHARED and 'shared' or 'broadcast'
      error({ err = 'INVALID this consumer is subscribed in ' .. is .. ' mode; unsubscribe it first, or use another consumer id' })
    end
  end
end

function T.subscribe(keys, args)
  local consumer, peer = HF.check_tails(args[1], args[2] or '')
  local mode = ({ broadcast = HF.BROADCAST, shared = HF.SHARED })[args[3]]
  if not mode then error({ err = 'INVALID mode must be broadcast or shared' }) end
  HF.check_filter(args[4])
  local t = HF.open_topic(keys[1])
  HF.fit_key(t.base .. K.seats, 'hash')
  HF.fit_key(t.base .. K.seen, 'zset')
  local seats = HF.seats(t.base)
  check_mode(seats, consumer, mode)

  local tail = mode == HF.SHARED and consumer or peer
  local first = HF.unfinished(seats)
  if first and (first.tail ~= tail or first.state == HF.RETURNING) then
    HF.go_on(t, first)
    return 0
  end
  local seat = { tail = tail, mode = mode, state = HF.ARRIVING, since = t.now, filter = args[4], consumer = consumer }
  for _, other in ipairs(seats) do
    if other.tail == tail then
      -- What is left of one that was being left is not for the one who comes back.
      if other.state == HF.LEAVING then
        HF.clear_seat(t.base, other)
        return 0
      end
      seat.since, seat.state = other.since, other.state
    end
  end
  HF.keep_seat(t.base, seat)
  redis.call('ZADD', t.base .. K.seen, t.now, peer)
  local own = redis.call('HGET', t.base, 'settings')
  if own then redis.call('HSETNX', t.base .. tail, 'settings', own) end
  HF.save(t)
  if t.clock > 0 then
    -- A clock that a test has stopped stands still here too.
    local q = HF.open(t.base .. tail)
    q.clock = t.clock
    HF.save(q)
  end
  -- Also if it is active: the topic may hold a part of its messages, after an unsubscribe that was cut off.
  return HF.arrive(t, seat) and 1 or 0
end
