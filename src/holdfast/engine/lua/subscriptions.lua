--[[ subscriptions: who is subscribed to a topic.
  KEYS   topic
  ARGV   –
  Reply  now, peer_timeout_ms, how many seats; then per seat: seat, mode, state, since, filter; then
         per peer: peer, last seen
  Errors –
  Cost   O(subscriptions + peers)
  Flags  no-writes                                                                              ]]

function T.subscriptions(keys, args)
  local t = HF.open(keys[1])
  local seats = HF.seats(t.base)
  local reply = { t.now, t.settings.peer_timeout_ms, #seats }
  for _, seat in ipairs(seats) do
    for _, part in ipairs({ seat.tail, seat.mode, seat.state, seat.since, seat.filter }) do reply[#reply + 1] = part end
  end
  for peer, at in pairs(HF.last_seen(t.base)) do
    reply[#reply + 1], reply[#reply + 2] = peer, at
  end
  return reply
end
