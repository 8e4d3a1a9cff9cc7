--[[ remove: take a message away by its id, where it is leased, delayed or dead.
  KEYS   queue
  ARGV   id
  Reply  1 if it was there, else 0
  Errors INVALID
  Cost   O(log n)
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.remove(keys, args)
  local id = HF.packed_id(args[1])
  local q = HF.open(keys[1])
  HF.fit_bodies(q)
  local r, placed
  local packed = HF.packed_batch_of(q, id)
  if packed then HF.loosen(q, packed) end
  local v = HF.leased_get(q, { id })[1]
  if v then
    local head
    r, head = HF.unleash(v)
    placed = not head
    HF.release(q, { { id, v } })
  else
    r = redis.call('HGET', q.base .. K.delayed, id)
    if r then
      placed = HF.keeps_place(r)
      redis.call('HDEL', q.base .. K.delayed, id)
      redis.call('ZREM', q.base .. K.due, id)
    else
      v = redis.call('HGET', q.base .. K.dead, id)
      if not v then return 0 end
      r = string.sub(v, 1 + HF.dead_size(v, 1))
      HF.dead_drop(q, { id })
    end
  end
  HF.forget(q, { r })
  if placed then
    HF.groups_settle(q, { r })
    HF.rearm(q, HF.ready_any(q), false)
  end
  q.removed = q.removed + 1
  HF.note(q, 'removed', { r })
  HF.save(q)
  return 1
end
