--[[ unname: the unique names of deliveries may be used again, while they are still in hand: for what must
  be there only once while it waits, and has begun. A message that comes back does not get its name
  again; who holds it by then keeps it.
  KEYS   queue
  ARGV   receipts as for ack
  Reply  0-based positions of the receipts that named no current delivery
  Errors INVALID
  Cost   O(1) per message
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.unname(keys, args)
  local q = HF.open(keys[1])
  HF.fit_key(q.base .. K.unique, 'hash')
  local held, stale = HF.held(q, args, 1)
  local records = {}
  for i = 1, #held do records[i] = HF.unleash(held[i][2]) end
  HF.free_names(q, records)
  return stale
end
