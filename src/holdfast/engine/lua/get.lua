--[[ get: a message by its id, where it is leased, delayed or dead. For ready ones see find.
  KEYS   queue
  ARGV   id
  Reply  state, value, then as inspect shows it; or nil
  Errors INVALID
  Cost   O(1)
  Flags  no-writes                                                                              ]]

function T.get(keys, args)
  local id, base = HF.packed_id(args[1]), keys[1]
  local v = HF.leased_get({ base = base }, { id })[1]
  if v then
    local entry = HF.entry_of({ base = base }, string.sub(v, 2, 7))
    local own = string.byte(v, 1) % 2 == HF.OWN
    local till = tonumber(redis.call('ZSCORE', base .. K.deadlines, own and id or string.sub(v, 2, 7)) or 0)
    return { 'leased', v, entry and struct.unpack('>I6', entry) or 0, till < HF.FOREVER and till or 0 }
  end
  v = redis.call('HGET', base .. K.delayed, id)
  if v then return { 'delayed', v, tonumber(redis.call('ZSCORE', base .. K.due, id)) } end
  v = redis.call('HGET', base .. K.dead, id)
  if v then return { 'dead', v } end
  return false
end
