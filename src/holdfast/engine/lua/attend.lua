--[[ attend: be seen at one's seat without taking anything, and do there what tend does. Who waits, or has its
  hands full, is there, as long as it comes back in time.
  KEYS   topic
  ARGV   consumer, peer, wait_ms as tend; optionally the seat where the caller believes to sit
  Reply  as tend, but the second part is also at most the time after which to be seen again
  Errors INVALID, NOSUBSCRIPTION
  Cost   as tend
  Flags  allow-oom                                                                              ]]

function T.attend(keys, args)
  local seat = HF.must_sit_at(keys[1], args[1], args[2], args[4])
  local reply = T.tend({ keys[1] .. seat.tail }, { args[3] })
  redis.call('ZADD', keys[1] .. K.seen, HF.open(keys[1]).now, args[2])
  return { reply[1], HF.seen_by(keys[1], reply[2]) }
end
