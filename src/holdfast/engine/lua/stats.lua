--[[ stats: how many messages are in which state, and what has happened so far.
  KEYS   queue
  ARGV   –
  Reply  names and values, alternating; nil if the queue does not exist. Clients up to 0.5.0 fail at a name that they
         do not know: whatever was added after 0.1.0 is told only where it is not 0
  Errors –
  Cost   O(1)
  Flags  no-writes                                                                              ]]

-- When the first message of a level was sent. Behind a hundred tombstones nobody looks.
local function first_sent(q, level)
  for _, entry in ipairs(redis.call('LRANGE', q.base .. K.ready .. level, 0, 99)) do
    local kind = string.byte(entry, 1)
    if kind == HF.TOKEN then entry = redis.call('LINDEX', q.base .. K.group .. string.sub(entry, 2), 0) end
    if entry and kind ~= HF.TOMB then return (struct.unpack('>I6', entry)) end
  end
  return 0
end

function T.stats(keys, args)
  local q = HF.open(keys[1])
  if not q.exists then return false end
  local oldest = 0
  for _, level in ipairs(HF.ready_levels(q, true)) do
    local ms = first_sent(q, level)
    if ms > 0 and (oldest == 0 or ms < oldest) then oldest = ms end
  end
  local reply = {
    'ready', HF.ready_count(q),
    'delayed', redis.call('ZCARD', q.base .. K.due),
    'leased', q.leased,
    'dead', redis.call('ZCARD', q.base .. K.died),
    'groups', redis.call('HLEN', q.base .. K.slots),
    'sent', q.sent, 'received', q.received, 'acked', q.acked, 'requeued', q.requeued,
    'buried', q.buried, 'dead_received', q.dead_received, 'redriven', q.redriven,
    'expired', q.expired, 'removed', q.removed, 'dropped', q.dropped,
    'duplicates', q.duplicates, 'extended', q.extended,
    'journal', redis.call('XLEN', q.base .. K.journal),
    'paused_until', q.paused_until, 'next_due', q.next,
    'oldest_ready', oldest, 'now', q.now,
    'last_ms', q.ms, 'last_seq', q.seq,
  }
  if q.reserved > 0 then reply[#reply + 1], reply[#reply + 2] = 'reserved', q.reserved end
  return reply
end
