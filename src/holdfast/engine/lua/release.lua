--[[ release: give a reservation's messages back, a piece per call; its owner can never have it again. Who calls
  receive meanwhile gets nothing until all are back, and helps.
  KEYS   queue
  ARGV   owner, seq (0: all that the owner has)
  Reply  how many messages go back, told once; 1 if it is done, 0 if the caller must call again
  Errors INVALID
  Cost   O(1,000), and O(reservations begun since the last commit) for all of an owner
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.release(keys, args)
  local owner = HF.owner_name(args[1])
  local seq = HF.integer(args[2], 'seq', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit(q, {})
  local o, mine = HF.owner(q, owner), {}
  if seq > 0 then mine[1] = HF.reservation(q, owner, seq) or nil else mine = HF.reservations_of(q, o) end
  if #mine == 0 then return { 0, 1 } end
  local n = 0
  for _, r in ipairs(mine) do n = n + HF.begin_release(q, r) end
  local _, last = HF.release_reserved(q, mine[1], 'the reservation was released')
  local done = last and #mine == 1
  if done and seq == 0 then
    o.settled = o.planned
    HF.keep_owner(q, o)
  end
  HF.save(q)
  return { n, done and 1 or 0 }
end
