--[[ The dead state: `died` orders dead letters by time of death, `dead` holds them:

    time of death u48, reason u16+…, error u16+…, then the message

  No reason or error is longer than HF.LONGEST: a length that does not fit into its u16 would put everything
  behind it out of place. Whoever takes one from a caller checks it; whoever stores one cuts it. ]]

HF.LONGEST = 8000

function HF.check_why(text, least)
  if #text < (least or 0) or #text > HF.LONGEST then
    error({ err = string.format('INVALID a reason or error must have %d to %d bytes', least or 0, HF.LONGEST) })
  end
end

function HF.dead_size(v, at)
  local reason = struct.unpack('>I2', v, at + 6)
  return 10 + reason + struct.unpack('>I2', v, at + 8 + reason)
end

-- `died`: when, if all died at one time; as text, for a number is printed as an argument each time.
local function put(q, ids, values, died)
  local pairs_of, fields = {}, {}
  for i = 1, #ids do
    pairs_of[2 * i - 1], pairs_of[2 * i] = died or struct.unpack('>I6', values[i]), ids[i]
    fields[2 * i - 1], fields[2 * i] = ids[i], values[i]
  end
  HF.each('HSET', q.base .. K.dead, fields, 1, #fields)
  HF.each('ZADD', q.base .. K.died, pairs_of, 1, #pairs_of)
  HF.wake_dead(q)
end

-- Messages die. A dead letter frees its unique name and its group's place (unless it held none of its
-- own): it is out of the flow.
function HF.bury(q, records, reason, err, unplaced)
  if #records == 0 then return end
  reason, err = string.sub(reason, 1, HF.LONGEST), string.sub(err, 1, HF.LONGEST)
  local head = struct.pack('>I6I2', q.now, #reason) .. reason .. struct.pack('>I2', #err) .. err
  local ids, values = {}, {}
  for i = 1, #records do
    ids[i], values[i] = string.sub(records[i], 1, 10), head .. records[i]
  end
  put(q, ids, values, string.format('%.0f', q.now))
  q.buried = q.buried + #records
  HF.free_names(q, records)
  if not unplaced then HF.groups_settle(q, records) end
  HF.note(q, 'dead', records, nil, reason)
end

-- Dead letters that somebody had in hand come back as they were.
function HF.rebury(q, ids, values)
  if #ids == 0 then return end
  put(q, ids, values)
  HF.note(q, 'dead', HF.dead_records(values), nil, 'returned')
end

-- The messages in dead letters.
function HF.dead_records(values)
  local records = {}
  for i, v in ipairs(values) do records[i] = string.sub(v, 1 + HF.dead_size(v, 1)) end
  return records
end

-- The dead letters among `ids`: those found, each once, and their values.
function HF.dead_get(q, ids)
  local found, values, seen = {}, {}, {}
  if #ids == 0 then return found, values end
  local all = HF.hmget(q.base .. K.dead, ids)
  for i = 1, #ids do
    if all[i] and not seen[ids[i]] then
      seen[ids[i]] = true
      found[#found + 1], values[#values + 1] = ids[i], all[i]
    end
  end
  return found, values
end

function HF.dead_drop(q, ids)
  if #ids == 0 then return end
  HF.each('HDEL', q.base .. K.dead, ids, 1, #ids)
  HF.each('ZREM', q.base .. K.died, ids, 1, #ids)
end
