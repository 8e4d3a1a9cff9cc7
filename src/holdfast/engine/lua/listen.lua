--[[ listen: somebody hears this queue's events for the next ms; until then they are published.
  KEYS   queue
  ARGV   ms
  Reply  until when
  Errors INVALID
  Cost   O(1)                                                                                   ]]

function T.listen(keys, args)
  local ms = HF.integer(args[1], 'ms', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  q.listening = math.max(q.listening, q.now + ms)
  HF.save(q)
  return q.listening
end
