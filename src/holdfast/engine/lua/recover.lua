--[[ recover: take over deliveries that have been in hand for `elapsed_ms` or more, oldest first.
  They count as failed once more and are leased to the caller; those past max_receives die.
  KEYS   queue
  ARGV   count, elapsed_ms, lease_ms (0: until settled; -1: the queue's; -2: that if set)
  Reply  as receive
  Errors INVALID
  Cost   O(count + batches looked at), the latter at most 1,000
  Flags  allow-oom                                                                              ]]

function T.recover(keys, args)
  local count = HF.integer(args[1], 'count', 1, 100000)
  local elapsed_ms = HF.integer(args[2], 'elapsed_ms', 0, HF.FOREVER)
  local lease_ms = HF.integer(args[3], 'lease_ms', -2, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit_bodies(q)

  local held, again, settled, over, dead_ids, dead_values = {}, {}, {}, {}, {}, {}
  -- Who asked for no limit by setting neither gets none: the message goes round until it is acked.
  local most = lease_ms == -2 and (q.settings.own_max_receives or 0) or q.settings.max_receives
  lease_ms = HF.lease_for(q, lease_ms)
  -- Only batches that were there before this call: it must not meet its own.
  local entries = redis.call('ZRANGE', q.base .. K.batches, 0, 999, 'WITHSCORES')
  for e = 1, #entries, 2 do
    local entry, batch = entries[e], struct.pack('>I6', tonumber(entries[e + 1]))
    if #again >= count or HF.entry_time(entry) > q.now - elapsed_ms then break end
    HF.loosen(q, batch)
    local ids = HF.ids_in(entry)
    local values = HF.leased_get(q, ids)
    for i = 1, #ids do
      local v = values[i]
      if #again < count and v and string.sub(v, 2, 7) == batch then
        local r, head = HF.unleash(v)
        local receives = HF.receives(r) + 1
        if head then
          dead_ids[#dead_ids + 1], dead_values[#dead_values + 1] = ids[i], head .. r
          settled[#settled + 1] = { ids[i], v }
        elseif most > 0 and receives >= most then
          over[#over + 1] = HF.with_receives(r, receives)
          settled[#settled + 1] = { ids[i], v }
        else
          again[#again + 1] = HF.with_receives(r, receives)
          held[#held + 1] = { ids[i], v }
        end
      end
    end
  end

  HF.fit(q, over)
  local first, deadline = 0, 0
  if #again > 0 then
    first, deadline = HF.lease(q, again, lease_ms, nil, true)
    HF.release(q, held, true)
  end
  HF.bury(q, over, 'max_receives', 'recovered after ' .. elapsed_ms .. ' ms or more in hand')
  HF.rebury(q, dead_ids, dead_values)
  HF.release(q, settled)
  q.requeued, q.received = q.requeued + #again, q.received + #again
  HF.note(q, 'requeued', again, nil, 'recovered')
  HF.note(q, 'received', again, deadline, nil, lease_ms)
  if #held + #settled > 0 then HF.save(q) end
  local n = #again
  if q.kinds >= HF.REF then HF.fill(q, again, HF.in_record) end
  again[n + 1], again[n + 2], again[n + 3], again[n + 4], again[n + 5] = first, deadline, 0, -1, q.settings.shards
  return again
end
