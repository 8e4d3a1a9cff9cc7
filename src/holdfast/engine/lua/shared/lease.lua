--[[ The leased state. Messages handed out by one call form delivery batches of up to 1,000, and a
  batch has one deadline: one sorted-set entry for a hundred messages instead of a hundred.

    leased     id → head (flags u8, size of batch u16, batch u48), then the message
    batches    score: batch; member: time u48, then the ids          order of delivery
    deadlines  member: batch, 6 bytes; or id, 10 bytes               order of expiry
    settled    batch → how many are out of it, while some are still in

  The batch number is the fence: a receipt is (batch, id), and a later delivery has a later batch.
  Head flags: OWN = this message has a deadline of its own; DEAD = it was a dead letter and goes
  back there; its dead head lies between head and message.                                      ]]

HF.BATCH = 1000
HF.OWN, HF.DEAD = 1, 2
HF.ANY = '\0\0\0\0\0\0'

-- The indexes first: an error after the hash would leave messages that nobody ever reclaims. And an
-- error must leave no index behind, since the number of the batch will be given again.
local function write(q, entry, deadline, fields, n)
  local batches, deadlines, batch = q.base .. K.batches, q.base .. K.deadlines, struct.pack('>I6', q.batch)
  redis.call('ZADD', batches, q.batch, entry)
  local answer = deadline > 0 and redis.pcall('ZADD', deadlines, deadline, batch)
  if not (type(answer) == 'table' and answer.err) then
    for i = 1, n, 1000 do
      answer = redis.pcall('HSET', q.base .. K.leased, unpack(fields, i, math.min(i + 999, n)))
      if type(answer) == 'table' and answer.err then
        redis.call('ZREM', deadlines, batch)
        break
      end
    end
  end
  if type(answer) == 'table' and answer.err then
    redis.call('ZREM', batches, entry)
    error(answer)
  end
end

-- Lease `list` until now + lease_ms (0: until settled). `dead_ids`: they are dead letters. Returns
-- the first batch number; message i is in batch first + floor((i - 1) / 1000).
function HF.lease(q, list, lease_ms, dead_ids)
  local n, first, sub = #list, q.batch + 1, string.sub
  local deadline = lease_ms > 0 and q.now + lease_ms or 0
  for from = 1, n, HF.BATCH do
    local to = math.min(from + HF.BATCH - 1, n)
    q.batch = q.batch + 1
    local head = struct.pack('>BI2I6', dead_ids and HF.DEAD or 0, to - from + 1, q.batch)
    local fields, ids, f = {}, {}, 0
    for i = from, to do
      local r = list[i]
      local id = dead_ids and dead_ids[i] or sub(r, 1, 10)
      ids[i - from + 1] = id
      fields[f + 1], fields[f + 2] = id, head .. r
      f = f + 2
    end
    write(q, struct.pack('>I6', q.now) .. table.concat(ids), deadline, fields, f)
  end
  -- Those who wait must know of a lease that ends sooner than what they are waiting for.
  if deadline > 0 and HF.due_at(q, deadline) then HF.wake(q) end
  return first, deadline
end

-- The message in a value of `leased`, and its dead head if it has one.
function HF.unleash(v)
  if string.byte(v, 1) < HF.DEAD then return string.sub(v, 10) end
  local at = HF.dead_size(v, 10)
  return string.sub(v, 10 + at), string.sub(v, 10, 9 + at)
end

-- Which of the receipts args[from..] (batch u48, id; batch 0: any) are current deliveries.
-- Returns a list of {id, value} and the 0-based positions of those that are not.
function HF.held(q, args, from)
  local n, sub, byte = #args - from + 1, string.sub, string.byte
  if n < 1 then error({ err = 'INVALID give at least one receipt' }) end
  local ids, want = {}, {}
  for i = 1, n do
    local a = args[from + i - 1]
    if #a ~= 16 then error({ err = 'INVALID a receipt must have 16 bytes' }) end
    want[i], ids[i] = sub(a, 1, 6), sub(a, 7)
  end
  local values, held, stale, seen = HF.hmget(q.base .. K.leased, ids), {}, {}, {}
  for i = 1, n do
    local id, v, w = ids[i], values[i], want[i]
    if v and not seen[id] and (sub(v, 4, 9) == w or w == HF.ANY) then
      seen[id] = true
      held[#held + 1] = { id, v }
    else
      stale[#stale + 1] = i - 1
    end
  end
  return held, stale
end

-- Take messages out of the leased state. Call after they are safe elsewhere, or gone for good.
-- `leased_anew`: they are in a new batch already, and only the old one must let go of them.
function HF.release(q, held, leased_anew)
  local ids, own, counts, sizes = {}, {}, {}, {}
  for i = 1, #held do
    local id, v = held[i][1], held[i][2]
    ids[i] = id
    local batch = string.sub(v, 4, 9)
    if not counts[batch] then
      counts[batch], sizes[batch] = 0, (struct.unpack('>I2', v, 2))
    end
    counts[batch] = counts[batch] + 1
    if string.byte(v, 1) % 2 == HF.OWN then own[#own + 1] = id end
  end
  if #ids == 0 then return end
  if not leased_anew then HF.each('HDEL', q.base .. K.leased, ids, 1, #ids) end
  if #own > 0 then HF.each('ZREM', q.base .. K.deadlines, own, 1, #own) end
  for batch, count in pairs(counts) do HF.settle(q, batch, count, sizes[batch]) end
end

-- `count` more messages of a batch of `size` are settled; the last one takes the batch away.
function HF.settle(q, batch, count, size)
  if count < size then
    if redis.call('HINCRBY', q.base .. K.settled, batch, count) < size then return end
    redis.call('HDEL', q.base .. K.settled, batch)
  end
  local number = struct.unpack('>I6', batch)
  redis.call('ZREMRANGEBYSCORE', q.base .. K.batches, number, number)
  redis.call('ZREM', q.base .. K.deadlines, batch)
end
