--[[ ack: settle deliveries; the messages are gone.
  KEYS   queue
  ARGV   receipts: batch u48 and id; batch 0 acks whichever delivery is current
  Reply  0-based positions of the receipts that named no current delivery
  Errors INVALID
  Cost   O(1) per message
  Flags  allow-oom                                                                              ]]

function T.ack(keys, args)
  local q = HF.open(keys[1])
  local held, stale = HF.held(q, args, 1)
  if #held == 0 then return stale end
  local noting, special = HF.noting(q), {}
  for i = 1, #held do
    local v = held[i][2]
    -- Byte 23 is the message's flags. Most have none that matters here, and are not unpacked.
    if noting or string.byte(v, 1) >= HF.DEAD or string.byte(v, 23) > 1 then
      special[#special + 1] = HF.unleash(v)
    end
  end
  HF.release(q, held)
  HF.forget(q, special)
  HF.groups_settle(q, special)
  if #special > 0 then HF.rearm(q, HF.ready_any(q), false) end
  q.acked = q.acked + #held
  HF.note(q, 'acked', special)
  HF.save(q)
  return stale
end
