--[[ observe: receive from one's seat at a topic, and be seen to be there.
  KEYS   topic
  ARGV   consumer, peer, count, lease_ms, wait_ms as receive, but a lease always ends; optionally the
         seat where the caller believes to sit
  Reply  as receive; where nothing came and the caller waits, the time until something falls due is at
         most the time after which to be seen again
  Errors INVALID, NOSUBSCRIPTION
  Cost   as receive
  Flags  allow-oom                                                                              ]]

function T.observe(keys, args)
  local seat = HF.must_sit_at(keys[1], args[1], args[2], args[6])
  if seat.state == HF.ARRIVING then
    -- Who subscribed it did not come back to the end.
    HF.arrive(HF.open_topic(keys[1]), seat)
  end
  local q = HF.open(keys[1] .. seat.tail)
  redis.call('ZADD', keys[1] .. K.seen, q.now, args[2])
  -- A peer may go for good: what it holds must come back without it.
  local lease_ms = HF.integer(args[4], 'lease_ms', -2, HF.FOREVER)
  if lease_ms == 0 or lease_ms == -2 then lease_ms = -1 end
  if lease_ms == -1 and q.settings.lease_ms == 0 then lease_ms = HF.DEFAULTS.lease_ms end
  local reply = T.receive({ q.base }, { args[3], lease_ms, args[5] })
  if #reply == 5 and tonumber(args[5]) > 0 then reply[4] = HF.seen_by(keys[1], reply[4]) end
  return reply
end
