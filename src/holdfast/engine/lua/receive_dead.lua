--[[ receive_dead: lease up to `count` dead letters, oldest death first. Acked, they are gone;
  given back or not settled in time, they are dead letters again.
  KEYS   queue
  ARGV   count, lease_ms, wait_ms, as receive
  Reply  as receive, each message with its dead head
  Errors INVALID
  Cost   O(log dead) per message
  Flags  allow-oom                                                                              ]]

function T.receive_dead(keys, args)
  local count = HF.integer(args[1], 'count', 1, 100000)
  local lease_ms = HF.integer(args[2], 'lease_ms', -2, HF.FOREVER)
  local wait_ms = HF.integer(args[3], 'wait_ms', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit_bodies(q)
  lease_ms = HF.lease_for(q, lease_ms)
  local changed, behind = HF.catch_up(q)
  local ids, reply = HF.dead_get(q, behind and {} or redis.call('ZRANGE', q.base .. K.died, 0, count - 1))
  local n, first, deadline = #ids, 0, 0
  if n > 0 then
    HF.fit(q, {})
    first, deadline = HF.lease(q, reply, lease_ms, ids)
    HF.dead_drop(q, ids)
    q.dead_received, changed = q.dead_received + n, true
    HF.note(q, 'dead_received', HF.dead_records(reply), deadline, nil, lease_ms)
  elseif wait_ms > 0 then
    q.waiting_dead, changed = math.max(q.waiting_dead, q.now + wait_ms + 1000), true
  end
  local more = behind or redis.call('EXISTS', q.base .. K.died) == 1
  if more then HF.wake_dead(q) end
  if q.waiting_dead > 0 and q.waiting_dead <= q.now then
    q.waiting_dead, changed = 0, true
    redis.call('DEL', q.base .. K.wake_dead)
  end
  if changed then HF.save(q) end
  if q.kinds >= HF.REF then HF.fill(q, reply, HF.in_dead) end
  reply[n + 1], reply[n + 2], reply[n + 3] = first, deadline, more and 1 or 0
  reply[n + 4], reply[n + 5] = HF.next_in(q), q.settings.shards
  return reply
end
