--[[ tend_topic: what time has brought to a topic: seats at which nobody has observed for longer than the
  retention are given up, held messages past it go, and seats that were being left are cleared.
  KEYS   topic
  ARGV   –
  Reply  1 if the caller should call again
  Errors –
  Cost   O(subscriptions + 1,000)
  Flags  allow-oom                                                                              ]]

-- When somebody was last seen at each seat.
local function silent_since(t, seats)
  local latest = {}
  for peer, at in pairs(HF.last_seen(t.base)) do
    local consumer = string.match(peer, '^/[^/]*')
    latest[consumer], latest[peer] = math.max(latest[consumer] or 0, at), at
  end
  for _, seat in ipairs(seats) do seat.seen = math.max(latest[seat.tail] or 0, seat.since) end
end

-- Held messages that are past the retention, from the heads of the lists.
local function expire_held(t, oldest)
  local gone = 0
  for _, level in ipairs(HF.ready_levels(t, true)) do
    local key, expired = t.base .. K.ready .. level, {}
    for _, r in ipairs(redis.call('LRANGE', key, 0, 999)) do
      if string.byte(r, 1) >= HF.TOMB or struct.unpack('>I6', r) >= oldest then break end
      expired[#expired + 1] = r
    end
    if #expired > 0 then
      redis.call('LTRIM', key, #expired, -1)
      HF.forget(t, expired)
      HF.note(t, 'expired', expired)
      gone = gone + #expired
    end
  end
  t.expired = t.expired + gone
  return gone
end

function T.tend_topic(keys, args)
  local t = HF.open(keys[1])
  if not t.exists then return 0 end
  HF.catch_up(t)
  local again, seats = 0, HF.seats(t.base)
  silent_since(t, seats)
  local keep = t.settings.retention_ms
  for _, seat in ipairs(seats) do
    local over = keep > 0 and seat.seen < t.now - keep
    if seat.state == HF.LEAVING or over then
      local _, gone = HF.leave(t, seat)
      -- One seat a call; there may be others.
      t.expired, again = t.expired + gone, 1
      break
    end
  end
  if keep > 0 and expire_held(t, t.now - keep) > 0 then again = 1 end
  HF.save(t)
  return again
end
