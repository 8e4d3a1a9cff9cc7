--[[ cancel: mark a message as cancelled, for whoever works on it to see. The message stays where it is.
  KEYS   queue
  ARGV   id, mark_ms
  Reply  1
  Errors INVALID
  Cost   O(log marks), and those that are over
  Flags  allow-oom                                                                              ]]

function T.cancel(keys, args)
  local id = HF.packed_id(args[1])
  local mark_ms = HF.integer(args[2], 'mark_ms', 1, HF.FOREVER)
  local q = HF.open(keys[1])
  local key = q.base .. K.cancelled
  redis.call('ZREMRANGEBYSCORE', key, '-inf', q.now)
  redis.call('ZADD', key, 'GT', q.now + mark_ms, id)
  local last = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
  redis.call('PEXPIRE', key, last - q.now)
  return 1
end
