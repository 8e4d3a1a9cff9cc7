--[[ reservations: who reads this queue by reservations, and what they hold.
  KEYS   queue
  ARGV   –
  Reply  now, then names and values: of owners (committed u48, settled u48, planned u48, seen u48) and of
         reservations, owner/seq (sealed u8, rows u48, since u48, ends u48)
  Errors –
  Cost   O(owners + reservations)
  Flags  no-writes                                                                              ]]

function T.reservations(keys, args)
  local q = HF.open(keys[1])
  local reply = redis.call('HGETALL', q.base .. K.reservations)
  table.insert(reply, 1, q.now)
  return reply
end
