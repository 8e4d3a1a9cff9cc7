--[[ ack: settle deliveries; the messages are gone.
  KEYS   queue
  ARGV   receipts: batch u48 and id (batch 0: whichever delivery is current), or batch u48 and size
         u16 for all of a batch, which counts as so many positions
  Reply  0-based positions of the receipts that named no current delivery
  Errors INVALID
  Cost   O(1) per message
  Named  yes
  Flags  allow-oom                                                                              ]]

-- A whole batch of messages that are nothing special.
local function ack_whole(q, args)
  if q.kinds % 4 >= HF.GROUP or q.kinds % 16 >= HF.UNIQUE or HF.noting(q) then return false end
  local a = args[1]
  if #args ~= 1 or #a ~= 8 then return false end
  local size = struct.unpack('>I2', a, 7)
  local shared = q.kinds >= HF.REF and HF.ids_in(HF.entry_of(q, string.sub(a, 1, 6)) or '') or {}
  if not HF.drop_whole(q, string.sub(a, 1, 6), size) then return false end
  HF.let_go_ids(q, shared)
  q.acked = q.acked + size
  return true
end

local function ack_each(q, args)
  local held, stale = HF.held(q, args, 1)
  local noting, special, placed = HF.noting(q), {}, {}
  for i = 1, #held do
    local v = held[i][2]
    -- Byte 23 is the message's flags. Most have none that matters here, and are not unpacked.
    if noting or string.byte(v, 1) >= HF.DEAD or string.byte(v, 23) > 1 then
      local r, head = HF.unleash(v)
      special[#special + 1] = r
      -- A dead letter holds no place in its group.
      if not head then placed[#placed + 1] = r end
    end
  end
  HF.release(q, held)
  HF.forget(q, special)
  HF.groups_settle(q, placed)
  if #placed > 0 then HF.rearm(q, HF.ready_any(q), false) end
  q.acked = q.acked + #held
  HF.note(q, 'acked', special)
  return stale, #held
end

-- One message that is nothing special, and was handed out alone: what most consumers ack.
local function ack_alone(q, a)
  local sub = string.sub
  local batch, key, id = sub(a, 1, 6), q.base .. K.leased .. sub(a, 7, 11), sub(a, 7)
  local v = redis.call('HGET', key, id)
  -- Its head says: no deadline of its own, no dead letter; this batch, of one.
  if not v or sub(v, 1, 9) ~= '\0' .. batch .. '\0\1' or string.byte(v, 23) > 1 then return 0 end
  redis.call('HDEL', key, id)
  HF.unlist(q, batch)
  q.leased = q.leased - 1
  return 1
end

-- The short way, see memory.lua: one receipt, in a queue in which nothing special ever was.
function HF.SHORT.ack(base, args, sender, call)
  local a = args[1]
  if #args ~= 4 or (#a ~= 8 and #a ~= 16) then return nil end
  local s, settings, done, acked, kinds, leased, calm = HF.glance_held(base)
  if not calm or settings.journal == 1 or kinds % 4 >= HF.GROUP or kinds >= HF.UNIQUE then return nil end
  local q, n = { base = base, leased = leased }, 0
  if #a == 16 then
    n = ack_alone(q, a)
  else
    local size = struct.unpack('>I2', a, 7)
    n = HF.drop_whole(q, string.sub(a, 1, 6), size) and size or 0
  end
  if n == 0 then return nil end
  HF.move_done(base, done, sender)
  HF.save_held(base, s, acked + n, q.leased, sender .. '\0' .. call)
  return {}
end

function T.ack(keys, args, q)
  if #args < 1 then error({ err = 'INVALID give at least one receipt' }) end
  q = q or HF.open(keys[1])
  HF.fit_bodies(q)
  local stale, acked = {}, 1
  if not ack_whole(q, args) then stale, acked = ack_each(q, args) end
  if acked > 0 then HF.save(q) end
  return stale
end
