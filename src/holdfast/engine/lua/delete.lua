--[[ delete: the queue's own keys go. The caller purges all states first; anything sent in between
  makes this answer 0 and leave everything as it is.
  KEYS   queue
  ARGV   –
  Reply  1 if the queue is gone, 0 if it holds messages
  Errors –
  Cost   O(1)
  Flags  allow-oom                                                                              ]]

-- Suffixes to which more is appended, what lies there is gone by now or ends by itself; and what no queue has.
local PREFIXES = { ready = true, group = true, leased = true, packed = true, last_send = true, last_one = true, ledger = true, events = true,
  reserved = true, places = true, condemned = true, result = true, gate = true, flow = true, rate = true, permits = true }

function T.delete(keys, args)
  local q = HF.open(keys[1])
  if HF.ready_count(q) + q.leased + q.reserved > 0 then return 0 end
  for _, name in ipairs({ 'due', 'died' }) do
    if redis.call('EXISTS', q.base .. K[name]) == 1 then return 0 end
  end
  HF.move_last(q.base, redis.call('HGET', q.base, 'last') or '', '', q.now)
  HF.move_done(q.base, redis.call('HGET', q.base, 'done'), '')
  local keys_of = { q.base }
  for name, suffix in pairs(K) do
    if not PREFIXES[name] then keys_of[#keys_of + 1] = q.base .. suffix end
  end
  for level = 0, 9 do keys_of[#keys_of + 1] = q.base .. K.ready .. level end
  redis.call('UNLINK', unpack(keys_of))
  HF.leave_numbers(q)
  return 1
end
