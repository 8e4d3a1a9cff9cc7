--[[ release: give a reservation's messages back, a piece per call; its owner can never have it again.
  KEYS   queue
  ARGV   owner, seq (0: all that the owner has)
  Reply  how many messages went back, 1 if it is done, 0 if the caller must call again
  Errors INVALID
  Cost   O(1,000)
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.release(keys, args)
  local owner = HF.owner_name(args[1])
  local seq = HF.integer(args[2], 'seq', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit(q, {})
  local r
  if seq > 0 then r = HF.reservation(q, owner, seq) else r = HF.any_reservation(q, owner) end
  if not r then return { 0, 1 } end
  local n, done = HF.release_reserved(q, r, 'the reservation was released')
  HF.save(q)
  return { n, done and (seq > 0 or not HF.any_reservation(q, owner)) and 1 or 0 }
end
