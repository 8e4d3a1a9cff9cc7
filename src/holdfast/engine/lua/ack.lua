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
  local noting, special, placed = HF.noting(q), {}, {}
  for i = 1, #held do
    local v = held[i][2]
    -- Byte 23 is the message's flags. Most have none that matters here, and are not unpacked.
    if noting or string.byte(v, 1) >= HF.DEAD or string.byte(v, 23) > 1 then
      local r, head = HF.unleash(v)
      special[#special + 1] = r
      -- A dead letter holds no place in its group.
      if not head then placed[#placed + 1] = r end
    end
  end
  HF.release(q, held)
  HF.forget(q, special)
  HF.groups_settle(q, placed)
  if #placed > 0 then HF.rearm(q, HF.ready_any(q), false) end
  q.acked = q.acked + #held
  HF.note(q, 'acked', special)
  HF.save(q)
  return stale
end
