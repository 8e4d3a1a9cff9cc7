--[[ nack: give deliveries back.
  KEYS   queue
  ARGV   action, delay_ms, text, then receipts as for ack
           release  ready again at the head; does not count as a failure
           retry    counts; ready after delay_ms, or dead if it was the last try; text: the error
           bury     counts; dead at once; text: the reason
         text: at most 8,000 bytes
  Reply  0-based positions of the receipts that named no current delivery
  Errors INVALID
  Cost   O(log leased + log delayed) per message
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.nack(keys, args, q)
  local action, text = args[1], args[3]
  if action ~= 'release' and action ~= 'retry' and action ~= 'bury' then
    error({ err = 'INVALID action must be release, retry or bury' })
  end
  local delay_ms = HF.integer(args[2], 'delay_ms', 0, HF.FOREVER)
  HF.check_why(text or '')
  q = q or HF.open(keys[1])
  local held, stale = HF.held(q, args, 4)
  if #held == 0 then return stale end

  -- A dead letter goes back to the dead whatever is said of it.
  local records, dead_ids, dead_values = {}, {}, {}
  for i = 1, #held do
    local r, head = HF.unleash(held[i][2])
    if head then
      dead_ids[#dead_ids + 1], dead_values[#dead_values + 1] = held[i][1], head .. r
    else
      records[#records + 1] = r
    end
  end
  HF.fit(q, records)
  if action == 'release' then
    HF.ready_push(q, records, true)
    q.requeued = q.requeued + #records
    HF.note(q, 'requeued', records, nil, text)
  elseif action == 'retry' then
    HF.fail(q, records, delay_ms, text)
  else
    for i = 1, #records do records[i] = HF.with_receives(records[i], HF.receives(records[i]) + 1) end
    HF.bury(q, records, text, '')
  end
  HF.rebury(q, dead_ids, dead_values)
  HF.release(q, held)
  HF.rearm(q, HF.ready_any(q), false)
  HF.save(q)
  return stale
end
