--[[ pause: receive gets nothing until a time; everything else goes on. Resume is pause until 0.
  KEYS   queue
  ARGV   '@' time ms, '+' ms from now, or 'forever'
  Reply  until when, 0 if not paused
  Errors INVALID
  Cost   O(1)                                                                                   ]]

function T.pause(keys, args)
  local q = HF.open(keys[1])
  local at = args[1] == 'forever' and HF.FOREVER or HF.moment(q, args[1])
  q.paused_until = at > q.now and at or 0
  HF.wake(q)
  HF.save(q)
  return q.paused_until
end
