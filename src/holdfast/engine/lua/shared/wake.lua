--[[ Waking those who wait. Functions cannot block, so a waiting receiver does BLPOP on a marker,
  with its next receive pipelined behind it. At most one marker lies there: it wakes one waiter,
  whose receive puts it back while more is left, so as many wake as are needed and no more.
  `waiting` in the state says until when anybody may be waiting; when nobody is, nothing is done.

  Rejected: publish to all waiters, which wakes a crowd for one message.                        ]]

function HF.wake(q)
  -- Once a call: a marker that lies there is not taken before the call is over.
  if q.waiting <= q.now or q.woken then return end
  if q.unmarked or redis.call('EXISTS', q.base .. K.wake) == 0 then redis.call('RPUSH', q.base .. K.wake, '1') end
  q.woken = true
end

function HF.wake_dead(q)
  if q.waiting_dead > q.now and redis.call('EXISTS', q.base .. K.wake_dead) == 0 then
    redis.call('RPUSH', q.base .. K.wake_dead, '1')
  end
end

-- After a receive: pass the marker on, or clear it away. `final` is the last look of one who gives
-- up; the next due time may have been theirs to watch, so somebody else must look at it.
function HF.rearm(q, more, final)
  if q.waiting == 0 then return end
  if q.waiting <= q.now then
    q.waiting = 0
    redis.call('DEL', q.base .. K.wake)
  elseif more or (final and q.next > 0) then
    HF.wake(q)
  end
end
