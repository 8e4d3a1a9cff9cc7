--[[ unsubscribe: give up a seat, or a place at a shared one. The messages of a topic's last seat
  go back to the topic; those of any other are gone. A piece per call.
  KEYS   topic
  ARGV   consumer, peer ('' : the consumer with all its peers)
  Reply  1 if it is done, 0 if the caller must call again, -1 if it was not subscribed
  Errors INVALID
  Cost   O(subscriptions + 1,000)
  Named  yes
  Flags  allow-oom                                                                              ]]

-- A peer of a shared seat goes; the seat stays while others have a place at it.
local function others_share(t, consumer, peer)
  redis.call('ZREM', t.base .. K.seen, peer)
  for other in pairs(HF.last_seen(t.base)) do
    if string.match(other, '^/[^/]*') == consumer then return true end
  end
  return false
end

function T.unsubscribe(keys, args)
  if not args[2] then error({ err = "INVALID give a peer, or '' for all" }) end
  local consumer, peer = HF.check_tails(args[1], args[2] ~= '' and args[2] or nil)
  local t = HF.open_topic(keys[1])
  local mine = {}
  for _, seat in ipairs(HF.seats(t.base)) do
    if seat.consumer == consumer and (not peer or seat.mode == HF.SHARED or seat.tail == peer) then
      mine[#mine + 1] = seat
    end
  end
  if #mine == 0 then return -1 end
  local seat = mine[1]
  if peer and seat.mode == HF.SHARED and seat.state < HF.LEAVING then
    if not redis.call('ZSCORE', t.base .. K.seen, peer) then return -1 end
    if others_share(t, consumer, peer) then return 1 end
    -- It was the last, and must be found again by the next call.
    redis.call('ZADD', t.base .. K.seen, t.now, peer)
  end
  if not HF.leave(t, seat) then return 0 end
  return #mine > 1 and 0 or 1
end
