--[[ send_one: store one message of which nothing is said but what is in its envelope. As send, at half its cost.
  KEYS   queue
  ARGV   sender, call, again (as for send), envelope
  Reply  packed: ms u48 and seq u32 of its id, 1 if somebody waits u8 (as for send), how many shards the queue has u16
  Errors INVALID, FULL, ANSWERLOST, RESHARDED
  Cost   O(1)
  Flags  deny-oom

  A call of its own, because a single send is what a lone producer waits for: it neither unpacks the whole
  state nor answers with a table. What is out of the ordinary goes the long way, through send.        ]]

-- Its answer, packed.
HF.ONE = '>I6I4BI2'
local READY = {}
for level = 0, 9 do READY[level] = K.ready .. level end

local function long_way(keys, args)
  if #args[4] > 1 and string.byte(args[4], 2) >= HF.UNIQUE then
    error({ err = 'INVALID a message with a unique name goes by send, whose answer can say that it is a duplicate' })
  end
  local reply = T.send(keys, { args[1], args[2], args[3], 'plain', args[4] })
  return struct.pack(HF.ONE, reply[1], reply[2], reply[3], reply[4])
end

function T.send_one(keys, args)
  if #args ~= 4 then error({ err = 'INVALID give sender, call, again and one envelope' }) end
  local base, sender, envelope = keys[1], args[1], args[4]
  if args[3] == '1' then return long_way(keys, args) end
  local s, settings, last, now, ms, seq, levels, waiting, listening, sent, late = HF.glance(base)
  local level, flags = string.byte(envelope, 1, 2)
  if not s or #envelope < 6 or level > 9 or flags > 1 or (flags == 1 and not HF.envelope_ok(envelope))
    or settings.delay_ms > 0 or settings.max_length > 0 or late > now or HF.noted(settings, listening, now) then
    return long_way(keys, args)
  end
  HF.check_shard(base, settings)
  if now > ms then ms, seq = now, 0 else seq = seq + 1 end
  local q = waiting > now and { base = base, waiting = waiting, now = now } or nil
  if q then HF.fit_wake(q) end
  redis.call('RPUSH', base .. READY[level], struct.pack('>I6I4I2c0', ms, seq, 0, envelope))
  local reply = struct.pack(HF.ONE, ms, seq, (q and 1 or 0) + (sent == 0 and 2 or 0), settings.shards)
  if sender ~= '' then
    HF.move_last(base, last, sender, now)
    last = HF.last_of(sender, args[2], reply)
  end
  HF.save_glance(base, s, ms, seq, levels, level, sent + 1, last)
  if q then HF.wake(q) end
  return reply
end
