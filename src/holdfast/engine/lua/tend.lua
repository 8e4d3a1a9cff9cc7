--[[ tend: do what time has brought, for queues that nobody is polling: promote, reclaim, and clear
  expired messages away from the ready lists, a page at a time. Tells those with several shards to
  choose from whether this one has anything.
  KEYS   queue
  ARGV   wait_ms: how long the caller goes on waiting if there is nothing; 0: not at all
  Reply  1 if a receive would get something; ms until something falls due, -1: nothing will
  Errors INVALID
  Cost   bounded; what is left makes the second part 0
  Flags  allow-oom                                                                              ]]

-- Messages looked at for one that has expired: receivers of sharded queues call this often.
local LIMIT = 500

function T.tend(keys, args)
  local wait_ms = HF.integer(args[1], 'wait_ms', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit_bodies(q)
  local changed, behind = HF.catch_up(q)
  changed = HF.sweep(q, HF.FOREVER, LIMIT) > 0 or changed
  if q.waiting > 0 and q.waiting <= q.now then
    q.waiting, changed = 0, true
    redis.call('DEL', q.base .. K.wake)
  end
  local paused = q.paused_until > q.now
  local ready = not paused and (behind or HF.ready_any(q))
  if ready then
    HF.wake(q)
  elseif wait_ms > 0 then
    q.waiting, changed = math.max(q.waiting, q.now + wait_ms + 1000), true
  end
  if changed then HF.save(q) end
  return { ready and 1 or 0, HF.next_in(q) }
end
