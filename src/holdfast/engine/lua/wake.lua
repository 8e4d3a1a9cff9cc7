--[[ wake: look again. Where a queue has shards, waiters block at the first one only, and whoever
  makes a message ready in another one wakes them there.
  KEYS   queue
  ARGV   –
  Reply  1 if anybody may be waiting
  Errors –
  Cost   O(1)
  Flags  allow-oom                                                                              ]]

function T.wake(keys, args)
  local q = HF.open(keys[1])
  HF.wake(q)
  return q.waiting > q.now and 1 or 0
end
