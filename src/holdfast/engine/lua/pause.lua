--[[ pause: receive gets nothing until a time; everything else goes on. Resume is pause until 0.
  KEYS   queue
  ARGV   '@' time ms, '+' ms from now, or 'forever'
  Reply  until when, 0 if not paused
  Errors INVALID
  Cost   O(1)                                                                                   ]]

function T.pause(keys, args)
  local when = args[1]
  local n = when == 'forever' and HF.FOREVER or HF.integer(string.sub(when, 2), 'a time', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  local at = string.sub(when, 1, 1) == '+' and q.now + n or n
  q.paused_until = at > q.now and at or 0
  HF.wake(q)
  HF.save(q)
  return q.paused_until
end
