--[[ seat: where a peer sits, so that it can settle what it observed.
  KEYS   topic
  ARGV   consumer, peer
  Reply  the seat
  Errors INVALID, NOSUBSCRIPTION
  Cost   O(1)
  Flags  no-writes                                                                              ]]

function T.seat(keys, args)
  local seat = HF.must_sit(keys[1], HF.check_tails(args[1], args[2] or ''))
  return seat.tail
end
