--[[ extend: move the end of leases to now + lease_ms. The receipts stay valid, unless it is now.
  KEYS   queue
  ARGV   lease_ms, or 'forever' (until settled), or 'now' (given back at once, as a delivery that failed), then
         receipts as for ack. Clients up to release 0.5 write 0 for 'forever', and mean it.
  Reply  the new lease end (0: none), then 0-based positions of receipts that named no current delivery
  Errors INVALID
  Cost   O(log leased) per batch where all that is left of a batch is extended, else per message
  Named  yes
  Flags  allow-oom                                                                              ]]

-- One receipt for a whole batch that is as it was handed out: its deadline moves, and that is all.
local function extend_whole(q, args, lease_ms)
  local a = args[2]
  if #args ~= 2 or #a ~= 8 or lease_ms == 0 or HF.noting(q) then return nil end
  local batch, size = string.sub(a, 1, 6), struct.unpack('>I2', a, 7)
  local entry = HF.entry_of(q, batch)
  if not entry or HF.entry_size(entry) ~= size then return nil end
  if redis.call('HEXISTS', q.base .. K.settled, batch) == 1 then return nil end
  HF.fit_wake(q)
  redis.call('ZADD', q.base .. K.deadlines, q.now + lease_ms, batch)
  if HF.due_at(q, q.now + lease_ms) then HF.wake(q) end
  q.extended = q.extended + size
  HF.save(q)
  return { q.now + lease_ms }
end

-- The leases end now, and what that means is what the end of a lease means.
local function give_back(keys, args, q)
  local call = { 'retry', '0', 'the lease was ended by its holder' }
  for i = 2, #args do call[i + 2] = args[i] end
  local reply = T.nack(keys, call, q)
  table.insert(reply, 1, q.now)
  return reply
end

function T.extend(keys, args, q)
  q = q or HF.open(keys[1])
  if args[1] == 'now' then return give_back(keys, args, q) end
  local lease_ms = args[1] == 'forever' and 0 or HF.integer(args[1], 'lease_ms', 0, HF.FOREVER)
  local whole = extend_whole(q, args, lease_ms)
  if whole then return whole end
  local held, stale = HF.held(q, args, 2)
  local deadline = lease_ms > 0 and q.now + lease_ms or 0
  local batches, alone = {}, {}
  for i = 1, #held do
    local v = held[i][2]
    if string.byte(v, 1) % 2 == HF.OWN then
      alone[#alone + 1] = held[i]
    else
      local batch = string.sub(v, 2, 7)
      batches[batch] = batches[batch] or {}
      table.insert(batches[batch], held[i])
    end
  end
  if #held > 0 then HF.fit(q, {}) end
  for batch, list in pairs(batches) do
    local size = struct.unpack('>I2', list[1][2], 8)
    local settled = #list < size and tonumber(redis.call('HGET', q.base .. K.settled, batch) or 0) or 0
    if #list + settled == size then
      if deadline > 0 then
        redis.call('ZADD', q.base .. K.deadlines, deadline, batch)
      else
        redis.call('ZREM', q.base .. K.deadlines, batch)
      end
    else
      for i = 1, #list do alone[#alone + 1] = list[i] end
    end
  end
  for i = 1, #alone do
    local id, v = alone[i][1], alone[i][2]
    if string.byte(v, 1) % 2 ~= HF.OWN then
      -- From now on the batch is not as it was handed out: see HF.whole_batch.
      redis.call('HINCRBY', q.base .. K.settled, string.sub(v, 2, 7), 0)
      HF.leased_set(q, id, string.char(string.byte(v, 1) + HF.OWN) .. string.sub(v, 2))
    end
    redis.call('ZADD', q.base .. K.deadlines, deadline > 0 and deadline or HF.FOREVER, id)
  end
  if #held > 0 then
    if deadline > 0 and HF.due_at(q, deadline) then HF.wake(q) end
    q.extended = q.extended + #held
    if HF.noting(q) then
      local records = {}
      for i = 1, #held do records[i] = HF.unleash(held[i][2]) end
      HF.note(q, 'extended', records, deadline, nil, lease_ms)
    end
    HF.save(q)
  end
  table.insert(stale, 1, deadline)
  return stale
end
