--[[ reserved: messages of a sealed reservation, by their positions; nothing changes.
  KEYS   queue
  ARGV   owner, seq, start, count
  Reply  the messages; fewer than asked for if the reservation ends there
  Errors INVALID, RESERVATION
  Cost   O(start + count)
  Flags  no-writes                                                                              ]]

function T.reserved(keys, args)
  local owner = HF.owner_name(args[1])
  local seq = HF.integer(args[2], 'seq', 1, HF.FOREVER)
  local start = HF.integer(args[3], 'start', 0, HF.FOREVER)
  local count = HF.integer(args[4], 'count', 1, 100000)
  local q = HF.open(keys[1])
  local r = HF.reservation(q, owner, seq)
  if not r then
    HF.reservation_failed(string.format('%s/%.0f is not there: it was committed or given back', owner, seq))
  elseif not r.sealed then
    HF.reservation_failed(string.format('%s/%.0f is not sealed: it is still being filled', owner, seq))
  end
  return HF.fill(q, redis.call('LRANGE', r.list, start, start + count - 1), HF.in_record)
end
