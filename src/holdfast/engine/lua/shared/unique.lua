--[[ Unique names, by ensure: while a message that has one waits or is in hand, another one is not stored.

    unique     name → id, and the message's own ttl u48 (0: none): a message that has expired where it
               waits will never go out, and does not keep its name from others

  A name is free again when its message is acked, dies, expires or is taken away. A dead letter that is redriven
  gets it back, unless another has it by then: then both are there.                            ]]

local function value_of(r) return string.sub(r, 1, 10) .. struct.pack('>I6', HF.own_ttl(r)) end

local function in_hand(q, id)
  return HF.packed_batch_of(q, id) ~= nil or HF.leased_get(q, { id })[1]
end

-- The id of the message that has this name, if one has. What was written by an older revision tells no ttl.
function HF.name_taken(q, name)
  local v = redis.call('HGET', q.base .. K.unique, name)
  if not v then return nil end
  local id = string.sub(v, 1, 10)
  if #v > 10 and HF.ends(q, id, (struct.unpack('>I6', v, 11))) <= q.now and not in_hand(q, id) then return nil end
  return id
end

-- This message has that name from now on.
function HF.take_name(q, name, r) redis.call('HSET', q.base .. K.unique, name, value_of(r)) end

-- Messages are back: those whose names are free have them again.
function HF.take_names_back(q, records)
  for _, r in ipairs(records) do
    local name = HF.unique(r)
    if name and not HF.name_taken(q, name) and HF.expires(q, r) > q.now then HF.take_name(q, name, r) end
  end
end

local function has_name(q, name, r)
  return string.sub(redis.call('HGET', q.base .. K.unique, name) or '', 1, 10) == string.sub(r, 1, 10)
end

-- Messages are not what they were, and may have another ttl.
function HF.renew_names(q, records)
  for _, r in ipairs(records) do
    local name = HF.unique(r)
    if name and has_name(q, name, r) then HF.take_name(q, name, r) end
  end
end

-- Their names may be used again. One of them may carry a name that a newer message has by now.
function HF.free_names(q, records)
  for i = 1, #records do
    if string.byte(records[i], 14) % HF.REF >= HF.UNIQUE then
      local name = HF.unique(records[i])
      if has_name(q, name, records[i]) then redis.call('HDEL', q.base .. K.unique, name) end
    end
  end
end
