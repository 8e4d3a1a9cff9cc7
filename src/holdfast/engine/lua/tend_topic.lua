--[[ tend_topic: what time has brought to a topic: seats at which nobody has observed for longer than the
  retention are given up, held messages past it go, and seats that were being left are cleared.
  KEYS   topic
  ARGV   –
  Reply  1 if the caller should call again
  Errors –
  Cost   O(subscriptions + 5,000)
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

function T.tend_topic(keys, args)
  local t = HF.open_topic(keys[1])
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
  if HF.sweep(t, HF.FOREVER) > 0 then again = 1 end
  HF.save(t)
  return again
end
