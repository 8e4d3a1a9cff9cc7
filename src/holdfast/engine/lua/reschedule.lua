--[[ reschedule: change when a delayed message falls due.
  KEYS   queue
  ARGV   id, when ('+' delay ms | '@' due ms)
  Reply  the due time, or 0 if the message is not delayed
  Errors INVALID
  Cost   O(log delayed)
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.reschedule(keys, args)
  local id = HF.packed_id(args[1])
  local q = HF.open(keys[1])
  local at = HF.moment(q, args[2])
  if not redis.call('ZSCORE', q.base .. K.due, id) then return 0 end
  local r = redis.call('HGET', q.base .. K.delayed, id)
  if at <= q.now then
    HF.promote(q, { id })
    HF.wake(q)
  else
    redis.call('ZADD', q.base .. K.due, at, id)
    if HF.due_at(q, at) then HF.wake(q) end
  end
  HF.note(q, 'rescheduled', { r }, at > q.now and at or 0)
  HF.save(q)
  return math.max(at, 1)
end
