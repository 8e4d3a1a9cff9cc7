--[[ Delivery batches: what one receive handed out, up to 1,000 messages.

    batches  score: number; member: time u48, then
               loose   the ids
               packed  (first bit of the time set) runs of consecutive ids: first id, count u16

  A batch starts packed: its messages lie in a list of their own, untouched, and acking all of them is
  the end of that list. Most batches live and die so. As soon as one message is
  wanted alone, HF.loosen lays them out one by one, in the hashes that lease.lua tends. Small batches
  and dead letters are loose from the start.

  `runs` finds a packed batch by an id: member first id, count u16, batch u48. Nothing has left a
  packed batch, so runs never overlap, and the last one that starts at or before an id is the one. ]]

HF.BATCH = 1000
HF.PACK_FROM = 8

-- Batch numbers are a clock: so many a millisecond, and never one that was given before. A mere counter would
-- start again when a queue is deleted or its server falls back to older data, and a receipt of before would
-- settle other messages. 48 bits last until the year 2109.
HF.BATCHES_A_MS = 64
local LAST = 2 ^ 48 - 2 ^ 32

function HF.next_batch(q)
  return math.max(q.batch + 1, math.min(HF.real_ms(q) * HF.BATCHES_A_MS, LAST))
end

local PACKED = 2 ^ 47

-- The number of a batch as text: a number that is an argument of a command is printed for each.
local function number_of(batch) return string.format('%.0f', struct.unpack('>I6', batch)) end

function HF.entry_of(q, batch)
  local number = number_of(batch)
  return redis.call('ZRANGEBYSCORE', q.base .. K.batches, number, number)[1]
end

function HF.is_packed(entry) return string.byte(entry, 1) >= 128 end

function HF.entry_time(entry) return struct.unpack('>I6', entry) % PACKED end

-- The ids in an entry of `batches`, in the order in which they were handed out.
function HF.ids_in(entry)
  local ids, n, sub = {}, 0, string.sub
  if entry ~= '' and HF.is_packed(entry) then
    for at = 7, #entry, 12 do
      local ms, seq, count = struct.unpack('>I6I4I2', entry, at)
      for i = 0, count - 1 do ids[n + 1 + i] = HF.pack_id(ms, seq + i) end
      n = n + count
    end
  else
    for at = 7, #entry, 10 do
      n = n + 1
      ids[n] = sub(entry, at, at + 9)
    end
  end
  return ids
end

function HF.entry_size(entry)
  if not HF.is_packed(entry) then return (#entry - 6) / 10 end
  local n = 0
  for at = 17, #entry, 12 do n = n + struct.unpack('>I2', entry, at) end
  return n
end

function HF.packed_key(q, number) return q.base .. K.packed .. string.format('%.0f', number) end

-- The members of `runs` that belong to a packed batch.
local function runs_of(entry, batch)
  local runs = {}
  for at = 7, #entry, 12 do runs[#runs + 1] = string.sub(entry, at, at + 11) .. batch end
  return runs
end

-- Write the batch q.batch. An error leaves nothing of it: the number will be given again.
function HF.pack_batch(q, records, deadline, from_list)
  local unpack_id, pack = struct.unpack, struct.pack
  local batch, key = pack('>I6', q.batch), HF.packed_key(q, q.batch)
  local runs, first_ms, first_seq, count = {}, -1, 0, 0
  for i = 1, #records do
    local ms, seq = unpack_id('>I6I4', records[i])
    if ms == first_ms and seq == first_seq + count then
      count = count + 1
    else
      if count > 0 then runs[#runs + 1] = pack('>I6I4I2', first_ms, first_seq, count) end
      first_ms, first_seq, count = ms, seq, 1
    end
  end
  runs[#runs + 1] = pack('>I6I4I2', first_ms, first_seq, count)
  local entry = pack('>I6', PACKED + q.now) .. table.concat(runs)
  local members = {}
  for i = 1, #runs do members[2 * i - 1], members[2 * i] = 0, runs[i] .. batch end

  if not from_list then
    HF.each('RPUSH', key, records, 1, #records)
  elseif redis.call('RENAMENX', from_list, key) == 0 then
    error({ err = 'WRONGTYPE ' .. key .. ' is no part of a Holdfast queue' })
  end
  local function try(...)
    local answer = redis.pcall(...)
    if type(answer) ~= 'table' or not answer.err then return end
    if from_list then redis.call('RENAME', key, from_list) else redis.call('DEL', key) end
    redis.pcall('ZREM', q.base .. K.batches, entry)
    redis.pcall('ZREM', q.base .. K.deadlines, batch)
    error({ err = answer.err })
  end
  try('ZADD', q.base .. K.batches, q.batch, entry)
  if deadline > 0 then try('ZADD', q.base .. K.deadlines, deadline, batch) end
  for i = 1, #members, 1000 do try('ZADD', q.base .. K.runs, unpack(members, i, math.min(i + 999, #members))) end
  q.leased = q.leased + #records
end

-- A packed batch is gone from its list; so are its runs.
local function forget_packed(q, entry, batch)
  redis.call('DEL', q.base .. K.packed .. number_of(batch))
  local runs = runs_of(entry, batch)
  HF.each('ZREM', q.base .. K.runs, runs, 1, #runs)
end

-- Take a whole batch away, if it is still as it was handed out: packed, or loose and untouched.
function HF.drop_whole(q, batch, size)
  local entry = HF.entry_of(q, batch)
  if not entry or HF.entry_size(entry) ~= size then return false end
  if HF.is_packed(entry) then
    forget_packed(q, entry, batch)
    q.leased = q.leased - size
  elseif redis.call('HEXISTS', q.base .. K.settled, batch) == 1 then
    return false
  else
    HF.leased_drop(q, HF.ids_in(entry))
  end
  redis.call('ZREM', q.base .. K.batches, entry)
  redis.call('ZREM', q.base .. K.deadlines, batch)
  return true
end

-- The batch is in no order any more.
function HF.unlist(q, batch)
  local number = number_of(batch)
  redis.call('ZREMRANGEBYSCORE', q.base .. K.batches, number, number)
  redis.call('ZREM', q.base .. K.deadlines, batch)
end

-- Lay the messages of a packed batch out one by one. Nothing if it is loose or gone.
function HF.loosen(q, batch)
  local entry = HF.entry_of(q, batch)
  if not entry or not HF.is_packed(entry) then return end
  local number, ids = struct.unpack('>I6', batch), HF.ids_in(entry)
  local records = redis.call('LRANGE', HF.packed_key(q, number), 0, -1)
  q.leased = q.leased - #records
  HF.leased_put(q, ids, records, struct.pack('>BI6I2', 0, number, #records))
  redis.call('ZREMRANGEBYSCORE', q.base .. K.batches, number, number)
  redis.call('ZADD', q.base .. K.batches, number, struct.pack('>I6', HF.entry_time(entry)) .. table.concat(ids))
  forget_packed(q, entry, batch)
end

-- The packed batch in which a message is, if it is in one.
function HF.packed_batch_of(q, id)
  local run = redis.call('ZREVRANGEBYLEX', q.base .. K.runs, '[' .. id .. string.rep('\255', 8), '-', 'LIMIT', 0, 1)[1]
  if not run then return nil end
  local ms, seq, count = struct.unpack('>I6I4I2', run)
  local its_ms, its_seq = struct.unpack('>I6I4', id)
  if its_ms ~= ms or its_seq >= seq + count then return nil end
  return string.sub(run, 13)
end

-- Ids and values of a batch in whichever form, as leased_get would show them; nothing is written.
function HF.values_of(q, entry, batch)
  local ids = HF.ids_in(entry)
  if not HF.is_packed(entry) then return ids, HF.leased_get(q, ids) end
  local number, values = struct.unpack('>I6', batch), {}
  local head = struct.pack('>BI6I2', 0, number, #ids)
  for i, r in ipairs(redis.call('LRANGE', HF.packed_key(q, number), 0, -1)) do values[i] = head .. r end
  return ids, values
end
