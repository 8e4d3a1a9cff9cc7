--[[ clock: stop this queue's clock at a time, or let the server's clock run again. For tests.
  KEYS   queue
  ARGV   ms, 0: the server's clock; '' to read
  Reply  the queue's time now
  Errors INVALID
  Cost   O(1)                                                                                   ]]

function T.clock(keys, args)
  local q = HF.open(keys[1])
  if args[1] == '' then return q.now end
  q.clock = HF.integer(args[1], 'ms', 0, HF.FOREVER)
  -- Those who wait have timed themselves by the clock as it was.
  HF.wake(q)
  HF.wake_dead(q)
  HF.save(q)
  return q.clock > 0 and q.clock or q.now
end
