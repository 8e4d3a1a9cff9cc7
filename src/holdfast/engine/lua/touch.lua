--[[ touch: be seen at one's seat without taking anything.
  KEYS   topic
  ARGV   consumer, peer
  Reply  the time at which it was seen
  Errors INVALID, NOSUBSCRIPTION
  Cost   O(log peers)
  Flags  allow-oom                                                                              ]]

function T.touch(keys, args)
  HF.must_sit(keys[1], HF.check_tail(args[1], 'consumer'), HF.check_tail(args[2], 'peer'))
  local t = HF.open(keys[1])
  redis.call('ZADD', t.base .. K.seen, t.now, args[2])
  return t.now
end
