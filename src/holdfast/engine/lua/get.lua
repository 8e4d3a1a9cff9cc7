--[[ get: a message by its id, where it is leased, delayed or dead. For ready ones see find.
  KEYS   queue
  ARGV   id
  Reply  state, value, then as inspect shows it; or nil
  Errors INVALID
  Cost   O(1)
  Flags  no-writes                                                                              ]]

-- The value of a leased message, and the batch's entry.
local function leased(q, id)
  local v = HF.leased_get(q, { id })[1]
  if v then return v, HF.entry_of(q, string.sub(v, 2, 7)) end
  local batch = HF.packed_batch_of(q, id)
  if not batch then return nil end
  local entry = HF.entry_of(q, batch)
  local ids, values = HF.values_of(q, entry, batch)
  for i = 1, #ids do
    if ids[i] == id then return values[i], entry end
  end
end

function T.get(keys, args)
  local id, q = HF.packed_id(args[1]), { base = keys[1] }
  local v, entry = leased(q, id)
  if v then
    local own = string.byte(v, 1) % 2 == HF.OWN
    local till = tonumber(redis.call('ZSCORE', q.base .. K.deadlines, own and id or string.sub(v, 2, 7)) or 0)
    return { 'leased', HF.fill(q, { v }, HF.in_leased)[1], entry and HF.entry_time(entry) or 0, till < HF.FOREVER and till or 0 }
  end
  v = redis.call('HGET', q.base .. K.delayed, id)
  if v then return { 'delayed', HF.fill(q, { v }, HF.in_record)[1], tonumber(redis.call('ZSCORE', q.base .. K.due, id)) } end
  v = redis.call('HGET', q.base .. K.dead, id)
  if v then return { 'dead', HF.fill(q, { v }, HF.in_dead)[1] } end
  return false
end
