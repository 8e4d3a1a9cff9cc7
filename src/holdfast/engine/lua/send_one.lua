--[[ send_one: store one message of which nothing is said but what is in its envelope. As send, at half its cost.
  KEYS   queue
  ARGV   sender, call, again (as for send), envelope
  Reply  packed: ms u48 and seq u32 of its id, 1 if somebody waits u8, how many shards the queue has u16
  Errors INVALID, FULL
  Cost   O(1)
  Flags  deny-oom

  A call of its own, because a single send is what a lone producer waits for: it neither unpacks the whole
  state nor answers with a table. What is out of the ordinary goes the long way, through send.        ]]

local REPLY = '>I6I4BI2'
-- How what is kept of a call begins; what send keeps begins otherwise.
local MARK, SIZE = '\0', 14

local function long_way(keys, args)
  if #args[4] > 1 and string.byte(args[4], 2) >= HF.UNIQUE then
    error({ err = 'INVALID a message with a unique name goes by send, whose answer can say that it is a duplicate' })
  end
  local reply = T.send(keys, { args[1], args[2], args[3], 'plain', args[4] })
  return struct.pack(REPLY, reply[1], reply[2], reply[3], reply[4])
end

function T.send_one(keys, args)
  if #args ~= 4 then error({ err = 'INVALID give sender, call, again and one envelope' }) end
  local base, envelope = keys[1], args[4]
  local memory = base .. K.last_send .. args[1]
  if args[3] == '1' and args[1] ~= '' then
    local kept = redis.call('GET', memory)
    if kept and string.sub(kept, 1, 1) == MARK then
      if string.sub(kept, SIZE + 1) == args[2] then return string.sub(kept, 2, SIZE) end
    elseif kept then
      return long_way(keys, args)
    end
  end
  local g = HF.glance(base)
  local level, flags = string.byte(envelope, 1, 2)
  local settings = g and g.settings
  if not g or #envelope < 6 or level > 9 or flags > 1 or settings.delay_ms > 0 or settings.max_length > 0
    or HF.noting(g) or (flags == 1 and not HF.envelope_ok(envelope)) then
    return long_way(keys, args)
  end
  local ms, seq = math.max(g.now, g.ms), 0
  if ms == g.ms then seq = g.seq + 1 end
  local waits = g.waiting > g.now
  if waits then HF.fit_wake(g) end
  redis.call('RPUSH', base .. K.ready .. level, struct.pack('>I6I4I2', ms, seq, 0) .. envelope)
  HF.mark_level(g, level)
  if waits then HF.wake(g) end
  HF.save_glance(g, ms, seq)
  local reply = struct.pack(REPLY, ms, seq, waits and 1 or 0, settings.shards)
  if args[1] ~= '' then redis.call('SET', memory, MARK .. reply .. args[2], 'PX', HF.KEEP_ANSWER_MS) end
  return reply
end
