--[[ commit: an owner has done with its reservations up to one; their messages are acked, a piece per
  call, those that are condemned buried. Calling again changes nothing; an earlier one than before is
  refused, since only a reader that starts from an older place can say that.
  KEYS   queue
  ARGV   owner, seq (0: none yet), adopt (1: it does not matter if this queue never heard of it)
  Reply  how many messages went, 1 if it is done, 0 if the caller must call again
  Errors INVALID, RESERVATION
  Cost   O(1,000); O(1) for each reservation whose messages are nothing special
  Named  yes
  Flags  allow-oom                                                                              ]]

local LIMIT = 100

function T.commit(keys, args)
  local owner = HF.owner_name(args[1])
  local seq = HF.integer(args[2], 'seq', 0, HF.FOREVER)
  local adopt = HF.integer(args[3], 'adopt', 0, 1) == 1
  local q = HF.open(keys[1])
  HF.fit(q, {})
  HF.fit_bodies(q)
  local o = HF.owner(q, owner)
  local last = seq > o.committed and HF.reservation(q, owner, seq)
  if seq > o.planned or (last and not last.sealed) then
    if adopt then return { 0, 1 } end
    HF.reservation_failed(string.format('%s/%.0f was never read, and yet is said to be done with: its messages would be lost '
      .. '(was a checkpoint deleted while the sink kept its own record of batches?); give both a new place', owner, seq))
  end
  if seq < o.committed and not adopt then HF.reader_is_behind(owner, seq, o) end
  if seq <= o.settled and seq <= o.committed then return { 0, 1 } end

  o.committed = math.max(o.committed, seq)
  local went, looked = 0, 0
  while o.settled < o.committed and looked < LIMIT do
    local r, done = HF.reservation(q, owner, o.settled + 1), true
    looked = looked + 1
    -- One that is being given back is not its owner's any more.
    if r and not HF.is_released(r) then
      local n
      n, done = HF.commit_reserved(q, r)
      went = went + n
      if n > 0 then looked = LIMIT end
    end
    if done then o.settled = o.settled + 1 end
  end
  HF.keep_owner(q, o)
  HF.save(q)
  return { went, o.settled >= o.committed and 1 or 0 }
end
