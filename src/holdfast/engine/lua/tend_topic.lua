--[[ tend_topic: what time has brought to a topic: seats at which nobody has observed for longer than the
  retention are given up, and so are places at shared ones; held messages past it go, and what somebody began with
  and did not end goes on: seats that arrive, return or are being left.
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

-- Peers that share a seat have no messages of their own: one that is not seen for so long is forgotten. At most
-- 1,000 a call.
local function forget_peers(t, oldest)
  local gone = {}
  for _, peer in ipairs(redis.call('ZRANGEBYSCORE', t.base .. K.seen, '-inf', string.format('(%.0f', oldest), 'LIMIT', 0, 1000)) do
    if redis.call('HEXISTS', t.base .. K.seats, peer) == 0 then gone[#gone + 1] = peer end
  end
  if #gone > 0 then redis.call('ZREM', t.base .. K.seen, unpack(gone)) end
  return #gone
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
    if seat.state == HF.ARRIVING and not over then
      HF.arrive(t, seat)
      again = 1
      break
    elseif seat.state >= HF.LEAVING or over then
      local _, gone = HF.leave(t, seat)
      -- One seat a call; there may be others.
      t.expired, again = t.expired + gone, 1
      break
    end
  end
  if HF.sweep(t, HF.FOREVER) > 0 then again = 1 end
  if forget_peers(t, t.now - (keep > 0 and keep or HF.DEFAULTS.retention_ms)) > 0 then again = 1 end
  HF.save(t)
  return again
end
