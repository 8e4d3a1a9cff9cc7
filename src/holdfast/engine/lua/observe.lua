--[[ observe: receive from one's seat at a topic, and be seen to be there.
  KEYS   topic
  ARGV   consumer, peer, count, lease_ms, wait_ms as receive, but a lease always ends; optionally the
         seat where the caller believes to sit
  Reply  as receive
  Errors INVALID, NOSUBSCRIPTION
  Cost   as receive
  Flags  allow-oom                                                                              ]]

function T.observe(keys, args)
  local seat = HF.must_sit(keys[1], HF.check_tails(args[1], args[2] or ''))
  if args[6] and args[6] ~= seat.tail then
    error({ err = 'NOSUBSCRIPTION the consumer was subscribed anew in another mode; get the subscription anew too' })
  end
  local q = HF.open(keys[1] .. seat.tail)
  redis.call('ZADD', keys[1] .. K.seen, q.now, args[2])
  -- A peer may go for good: what it holds must come back without it.
  local lease_ms = HF.integer(args[4], 'lease_ms', -2, HF.FOREVER)
  if lease_ms == 0 or lease_ms == -2 then lease_ms = -1 end
  if lease_ms == -1 and q.settings.lease_ms == 0 then lease_ms = HF.DEFAULTS.lease_ms end
  return T.receive({ q.base }, { args[3], lease_ms, args[5] })
end
