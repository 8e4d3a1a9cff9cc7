--[[ stats: how many messages are in which state, and what has happened so far.
  KEYS   queue
  ARGV   –
  Reply  names and values, alternating; nil if the queue does not exist
  Errors –
  Cost   O(1)
  Flags  no-writes                                                                              ]]

function T.stats(keys, args)
  local q = HF.open(keys[1])
  if not q.exists then return false end
  local oldest = 0
  for _, level in ipairs(HF.ready_levels(q, true)) do
    local head = redis.call('LINDEX', q.base .. K.ready .. level, 0)
    if head and string.byte(head, 1) < HF.TOMB then
      local ms = struct.unpack('>I6', head)
      if oldest == 0 or ms < oldest then oldest = ms end
    end
  end
  return {
    'ready', HF.ready_count(q),
    'delayed', redis.call('ZCARD', q.base .. K.due),
    'leased', redis.call('HLEN', q.base .. K.leased),
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
end
