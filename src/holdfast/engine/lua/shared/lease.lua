--[[ The leased state. Messages handed out by one call form delivery batches (batch.lua), and a batch
  has one deadline: one sorted-set entry for a hundred messages instead of a hundred.

    leased     id → head (flags u8, batch u48, size of batch u16), then the message; one hash for
               what was sent in the same 256 ms, so that none grows so large that it gets slow
    deadlines  member: batch, 6 bytes; or id, 10 bytes               order of expiry
    settled    batch → how many are out of it, while some are still in

  The batch number is the fence: a receipt is (batch, id), and a later delivery has a later batch, also in a
  queue that was deleted and is used again.
  A receipt of (batch, size) stands for all messages of a batch, in its order.
  Head flags: OWN = this message has a deadline of its own; DEAD = it was a dead letter and goes
  back there; its dead head lies between head and message.                                      ]]

HF.OWN, HF.DEAD = 1, 2
HF.ANY = '\0\0\0\0\0\0'

-- Do something for each stretch of `ids` that lies in one hash. A stretch has at most 500 ids.
local function by_hash(q, ids, act)
  local n, sub, i = #ids, string.sub, 1
  while i <= n do
    local first, j = sub(ids[i], 1, 5), i
    while j < n and j - i < 499 and sub(ids[j + 1], 1, 5) == first do j = j + 1 end
    act(q.base .. K.leased .. first, i, j)
    i = j + 1
  end
end

-- The values of leased messages, false for what is not leased.
function HF.leased_get(q, ids)
  local values = {}
  by_hash(q, ids, function(key, i, j)
    local part = redis.call('HMGET', key, unpack(ids, i, j))
    for k = 1, #part do values[i + k - 1] = part[k] end
  end)
  return values
end

function HF.leased_set(q, id, value)
  redis.call('HSET', q.base .. K.leased .. string.sub(id, 1, 5), id, value)
end

function HF.leased_drop(q, ids)
  by_hash(q, ids, function(key, i, j)
    q.leased = q.leased - redis.call('HDEL', key, unpack(ids, i, j))
  end)
end

-- Lay messages out, each with the same head. `undo` takes back what the caller did, should it fail.
function HF.leased_put(q, ids, records, head, undo)
  local fields = {}
  for i = 1, #ids do fields[2 * i - 1], fields[2 * i] = ids[i], head .. records[i] end
  by_hash(q, ids, function(key, from, to)
    local answer = redis.pcall('HSET', key, unpack(fields, 2 * from - 1, 2 * to))
    if type(answer) == 'table' and answer.err then
      if undo then undo() end
      error({ err = answer.err })
    end
    q.leased = q.leased + answer
  end)
end

-- Write the batch q.batch, loose. The indexes first: an error after the hash would leave messages that
-- nobody ever reclaims; and it must leave no index behind, since the number will be given again.
local function lay_out(q, ids, records, flags, deadline)
  local batches, deadlines, batch = q.base .. K.batches, q.base .. K.deadlines, struct.pack('>I6', q.batch)
  local entry = struct.pack('>I6', q.now) .. table.concat(ids)
  redis.call('ZADD', batches, q.batch, entry)
  local function undo()
    redis.call('ZREM', batches, entry)
    redis.pcall('ZREM', deadlines, batch)
  end
  local answer = deadline > 0 and redis.pcall('ZADD', deadlines, deadline, batch)
  if type(answer) == 'table' and answer.err then
    undo()
    error({ err = answer.err })
  end
  HF.leased_put(q, ids, records, struct.pack('>BI6I2', flags, q.batch, #ids), undo)
end

-- Lease `list` until now + lease_ms (0: until settled). `dead_ids`: they are dead letters. `loose`:
-- they are leased already, and change hands in place. `from_list`: the list that holds just these, to be
-- taken as it is; at most 1,000 then. Returns the first batch number; message i is in batch
-- first + floor((i - 1) / 1000).
function HF.lease(q, list, lease_ms, dead_ids, loose, from_list)
  local n, first = #list, HF.next_batch(q)
  local deadline = lease_ms > 0 and q.now + lease_ms or 0
  q.batch = first - 1
  for from = 1, n, HF.BATCH do
    local part, size = list, math.min(n - from + 1, HF.BATCH)
    if size < n then
      part = {}
      for i = 1, size do part[i] = list[from + i - 1] end
    end
    q.batch = q.batch + 1
    if size >= HF.PACK_FROM and not (dead_ids or loose) then
      HF.pack_batch(q, part, deadline, from_list)
    else
      local ids = {}
      for i = 1, size do ids[i] = dead_ids and dead_ids[from + i - 1] or string.sub(part[i], 1, 10) end
      lay_out(q, ids, part, dead_ids and HF.DEAD or 0, deadline)
    end
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

-- Receipts args[from..] as lists of ids and of the batches they must be in; their batches are loose
-- from here on. A batch that is gone, or was another, leaves '' for each of its ids.
local function wanted(q, args, from)
  local ids, want, loose, sub = {}, {}, {}, string.sub
  if #args < from then error({ err = 'INVALID give at least one receipt' }) end
  for i = from, #args do
    if #args[i] ~= 16 and #args[i] ~= 8 then
      error({ err = 'INVALID a receipt must have 16 bytes, or 8 for a whole batch' })
    end
  end
  for i = from, #args do
    local a = args[i]
    local batch = sub(a, 1, 6)
    local real = batch ~= HF.ANY and batch or HF.packed_batch_of(q, sub(a, 7))
    if real and not loose[real] then
      loose[real] = true
      HF.loosen(q, real)
    end
    if #a == 16 then
      want[#want + 1], ids[#ids + 1] = batch, sub(a, 7)
    else
      local size = struct.unpack('>I2', a, 7)
      local of = HF.ids_in(HF.entry_of(q, batch) or '')
      for j = 1, size do
        want[#want + 1], ids[#ids + 1] = batch, #of == size and of[j] or ''
      end
    end
  end
  return ids, want
end

-- Which of the receipts args[from..] (batch u48, id, and batch 0: any; or batch u48, size u16) are
-- current deliveries. Returns a list of {id, value} and the 0-based positions of those that are not.
function HF.held(q, args, from)
  local ids, want = wanted(q, args, from)
  local sub, held, stale, seen = string.sub, {}, {}, {}
  local values = HF.leased_get(q, ids)
  for i = 1, #ids do
    local id, v, w = ids[i], values[i], want[i]
    if v and not seen[id] and (sub(v, 2, 7) == w or w == HF.ANY) then
      seen[id] = true
      held[#held + 1] = { id, v }
    else
      stale[#stale + 1] = i - 1
    end
  end
  return held, stale
end

-- `count` more messages of a batch of `size` are settled; the last one takes the batch away. `mixed`:
-- some had a deadline of their own, and `settled` knows of the batch although nothing was.
local function settle(q, batch, count, size, mixed)
  if count < size and redis.call('HINCRBY', q.base .. K.settled, batch, count) < size then return end
  if count < size or mixed then redis.call('HDEL', q.base .. K.settled, batch) end
  HF.unlist(q, batch)
end

-- Take messages out of the leased state. Call after they are safe elsewhere, or gone for good.
-- `leased_anew`: they are in a new batch already, and only the old one must let go of them.
function HF.release(q, held, leased_anew)
  local ids, own, counts, sizes, mixed = {}, {}, {}, {}, {}
  for i = 1, #held do
    local id, v = held[i][1], held[i][2]
    ids[i] = id
    local batch = string.sub(v, 2, 7)
    if not counts[batch] then
      counts[batch], sizes[batch] = 0, (struct.unpack('>I2', v, 8))
    end
    counts[batch] = counts[batch] + 1
    if string.byte(v, 1) % 2 == HF.OWN then own[#own + 1], mixed[batch] = id, true end
  end
  if #ids == 0 then return end
  if not leased_anew then HF.leased_drop(q, ids) end
  if #own > 0 then HF.each('ZREM', q.base .. K.deadlines, own, 1, #own) end
  for batch, count in pairs(counts) do settle(q, batch, count, sizes[batch], mixed[batch]) end
end
