--[[ condemn: say of reserved messages that they shall be dead letters when the rest is acked. Saying it
  again changes nothing, so that a batch can be done again from its start.
  KEYS   queue
  ARGV   owner, seq, then ids and reasons, alternating
  Reply  how many had not been condemned before
  Errors INVALID, RESERVATION
  Cost   O(1) per message
  Named  yes                                                                                    ]]

function T.condemn(keys, args)
  local owner = HF.owner_name(args[1])
  local seq = HF.integer(args[2], 'seq', 1, HF.FOREVER)
  if #args < 4 or #args % 2 == 1 then error({ err = 'INVALID give ids and reasons, alternating' }) end
  for i = 3, #args, 2 do
    HF.packed_id(args[i])
    HF.check_why(args[i + 1], 1)
  end
  local q = HF.open(keys[1])
  local r = HF.reservation(q, owner, seq)
  if not r or seq <= HF.owner(q, owner).committed then
    HF.reservation_failed(string.format('%s/%.0f is not there: it was committed or given back', owner, seq))
  end
  local before = redis.call('HLEN', r.condemned)
  HF.each('HSET', r.condemned, args, 3, #args)
  return redis.call('HLEN', r.condemned) - before
end
