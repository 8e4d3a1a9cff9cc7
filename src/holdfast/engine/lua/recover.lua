--[[ recover: take over deliveries that have been in hand for `elapsed_ms` or more, oldest first.
  They count as failed once more and are leased to the caller; those past max_receives die.
  KEYS   queue
  ARGV   count, elapsed_ms, lease_ms (0: until settled; -1: the queue's; -2: that if set), optionally the
         first batch that is not to be looked at: that of an earlier call of the same caller
  Reply  as receive; 1 for more: not all that is old enough was looked at, and the caller must call again
         if it wants more
  Errors INVALID
  Cost   O(count), and at most 1,000 messages and a batch beyond that
  Flags  allow-oom                                                                              ]]

local LOOK, PAGE = 1000, 100

-- The messages of a packed batch of which nothing goes out again: it need not be laid out to be buried.
local function all_over(q, entry, number, most)
  if most == 0 or not HF.is_packed(entry) then return nil end
  local records = redis.call('LRANGE', HF.packed_key(q, number), 0, -1)
  for i = 1, #records do
    if HF.receives(records[i]) + 1 < most then return nil end
  end
  return records
end

-- What becomes of each delivery of a batch, up to the `count`th that goes out again.
local function sort_out(to, ids, values, batch, most, count)
  for i = 1, #ids do
    local v = values[i]
    if #to.again < count and v and string.sub(v, 2, 7) == batch then
      local r, head = HF.unleash(v)
      local receives = HF.receives(r) + 1
      if head then
        to.dead_ids[#to.dead_ids + 1], to.dead_values[#to.dead_values + 1] = ids[i], head .. r
        to.settled[#to.settled + 1] = { ids[i], v }
      elseif most > 0 and receives >= most then
        to.over[#to.over + 1] = HF.with_receives(r, receives)
        to.settled[#to.settled + 1] = { ids[i], v }
      else
        to.again[#to.again + 1] = HF.with_receives(r, receives)
        to.held[#to.held + 1] = { ids[i], v }
      end
    end
  end
end

-- Look at batches, oldest first; true if there may be more than was looked at.
local function look(q, to, count, before, below, most)
  local at, looked = 0, 0
  while true do
    local entries = redis.call('ZRANGE', q.base .. K.batches, at, at + PAGE - 1, 'WITHSCORES')
    for e = 1, #entries, 2 do
      local entry, number = entries[e], tonumber(entries[e + 1])
      if #to.again >= count or HF.entry_time(entry) > before or number >= below then return false end
      if looked >= count + LOOK then return true end
      local batch = struct.pack('>I6', number)
      local records, over = all_over(q, entry, number, most), to.over
      if records then
        looked, to.whole[#to.whole + 1] = looked + #records, { batch, #records }
        for i = 1, #records do over[#over + 1] = HF.with_receives(records[i], HF.receives(records[i]) + 1) end
      else
        HF.loosen(q, batch)
        local ids = HF.ids_in(entry)
        looked = looked + #ids
        sort_out(to, ids, HF.leased_get(q, ids), batch, most, count)
      end
    end
    if #entries < 2 * PAGE then return false end
    at = at + PAGE
  end
end

function T.recover(keys, args)
  local count = HF.integer(args[1], 'count', 1, 100000)
  local elapsed_ms = HF.integer(args[2], 'elapsed_ms', 0, HF.FOREVER)
  local lease_ms = HF.integer(args[3], 'lease_ms', -2, HF.FOREVER)
  -- A call must not meet its caller's own batches.
  local below = HF.integer(args[4] or 2 ^ 48, 'a batch', 1, 2 ^ 48)
  local q = HF.open(keys[1])
  HF.fit_bodies(q)

  -- Who asked for no limit by setting neither gets none: the message goes round until it is acked.
  local most = lease_ms == -2 and (q.settings.own_max_receives or 0) or q.settings.max_receives
  lease_ms = HF.lease_for(q, lease_ms)
  local to = { again = {}, held = {}, settled = {}, over = {}, whole = {}, dead_ids = {}, dead_values = {} }
  local more = look(q, to, count, q.now - elapsed_ms, below, most)
  local again, first, deadline = to.again, 0, 0

  HF.fit(q, to.over)
  if #again > 0 then
    first, deadline = HF.lease(q, again, lease_ms, nil, true)
    HF.release(q, to.held, true)
  end
  HF.bury(q, to.over, 'max_receives', 'recovered after ' .. elapsed_ms .. ' ms or more in hand')
  HF.rebury(q, to.dead_ids, to.dead_values)
  HF.release(q, to.settled)
  for _, each in ipairs(to.whole) do HF.drop_whole(q, each[1], each[2]) end
  q.requeued, q.received = q.requeued + #again, q.received + #again
  HF.note(q, 'requeued', again, nil, 'recovered')
  HF.note(q, 'received', again, deadline, nil, lease_ms)
  if #again + #to.settled + #to.whole > 0 then HF.save(q) end
  local n = #again
  if q.kinds >= HF.REF then HF.fill(q, again, HF.in_record) end
  again[n + 1], again[n + 2], again[n + 3], again[n + 4], again[n + 5] = first, deadline, more and 1 or 0, -1, q.settings.shards
  return again
end
