--[[ touch: be seen at one's seat without taking anything.
  KEYS   topic
  ARGV   consumer, peer
  Reply  the time at which it was seen
  Errors INVALID, NOSUBSCRIPTION
  Cost   O(log peers)
  Flags  allow-oom                                                                              ]]

function T.touch(keys, args)
  HF.must_sit(keys[1], HF.check_tails(args[1], args[2] or ''))
  local t = HF.open(keys[1])
  redis.call('ZADD', t.base .. K.seen, t.now, args[2])
  return t.now
end
