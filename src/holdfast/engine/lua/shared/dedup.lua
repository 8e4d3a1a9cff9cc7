--[[ Dedup ids: for `dedup_ms` after a send (the queue's, or the message's own), another with the same
  dedup id is answered with the id of the first and stores nothing. A hash and a sorted set, so that a batch costs three commands
  however long it is; windows that have closed are cleared by catch_up.                         ]]

local LIMIT = 1000

function HF.dedup_known(q, ids)
  local known = {}
  if #ids == 0 then return known end
  local found = HF.hmget(q.base .. K.dedup, ids)
  for i = 1, #ids do
    -- A value is the end of the window and the message's id: a closed one no longer counts, even
    -- if nobody has cleared it yet.
    local v = found[i]
    if v and struct.unpack('>I6', v) > q.now then known[ids[i]] = string.sub(v, 7) end
  end
  return known
end

-- `fresh`: dedup id → { id of the message, its own window in ms or nil }.
function HF.dedup_keep(q, fresh)
  local fields, scores, first = {}, {}, nil
  for dedup, m in pairs(fresh) do
    local window = m[2] or q.settings.dedup_ms
    if window > 0 then
      local till = q.now + window
      fields[#fields + 1], fields[#fields + 2] = dedup, struct.pack('>I6', till) .. m[1]
      scores[#scores + 1], scores[#scores + 2] = till, dedup
      first = math.min(first or till, till)
    end
  end
  if not first then return end
  HF.each('HSET', q.base .. K.dedup, fields, 1, #fields)
  HF.each('ZADD', q.base .. K.dedup_until, scores, 1, #scores)
  HF.due_at(q, first)
end

function HF.dedup_prune(q)
  local over = redis.call('ZRANGEBYSCORE', q.base .. K.dedup_until, '-inf', q.now, 'LIMIT', 0, LIMIT)
  if #over == 0 then return end
  HF.each('HDEL', q.base .. K.dedup, over, 1, #over)
  HF.each('ZREM', q.base .. K.dedup_until, over, 1, #over)
end
