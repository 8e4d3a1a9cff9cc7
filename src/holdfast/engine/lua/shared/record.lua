--[[ The packed message, as it lies in lists and hashes.

    1–10   id: ms u48, seq u32, big-endian      server
    11–12  receives: failed deliveries so far   server; first bit: see HF.keep_place
    13     priority 0–9                         sender
    14     flags                                sender
    15–18  crc32 of 13, 14 and what follows     sender
    19–    [ttl u48] [group u16+…] [unique u16+…] [attributes u32+…] body

  A message that several subscriptions share has flag REF here instead of attributes and body:

    19–    [ttl u48] [group u16+…] size u32       its envelope lies once at the topic (topic.lua)

  A ready list also holds group tokens ('\255' group) and tombstones ('\254' …): no id starts so.
  Mirror: message.py packs and reads the same layout.                                           ]]

HF.GROUP, HF.TTL, HF.UNIQUE, HF.REF = 2, 4, 8, 16
HF.TOKEN, HF.TOMB = 255, 254
HF.FOREVER = 2 ^ 47

local has = function(flags, flag) return math.floor(flags / flag) % 2 == 1 end

function HF.pack_id(ms, seq) return struct.pack('>I6I4', ms, seq) end

function HF.receives(r) return string.byte(r, 11) % 128 * 256 + string.byte(r, 12) end

function HF.priority(r) return string.byte(r, 13) end

function HF.with_receives(r, n)
  return string.sub(r, 1, 10) .. struct.pack('>I2', math.min(n, 32767)) .. string.sub(r, 13)
end

-- While a message is delayed: does it hold a place in its group, if it has one? One that failed does, or
-- the next would overtake it; one that shall wait without having failed is marked.
function HF.keeps_place(r) return string.byte(r, 11) >= 128 or HF.receives(r) > 0 end

function HF.keep_place(r)
  if HF.keeps_place(r) or not HF.group(r) then return r end
  return string.sub(r, 1, 10) .. '\128\0' .. string.sub(r, 13)
end

-- When the message of this id ends, of this ttl or (0) the queue's, counted from when it was sent; and no later than
-- a topic's retention.
function HF.ends(q, id, ttl)
  if ttl == 0 then ttl = q.settings.ttl_ms end
  local held = q.retention_ms or 0
  if held > 0 and (ttl == 0 or held < ttl) then ttl = held end
  if ttl == 0 then return HF.FOREVER end
  return struct.unpack('>I6', id) + ttl
end

-- A message's own ttl, or 0.
function HF.own_ttl(r)
  return has(string.byte(r, 14), HF.TTL) and (struct.unpack('>I6', r, 19)) or 0
end

function HF.expires(q, r) return HF.ends(q, r, HF.own_ttl(r)) end

local function group_at(flags) return has(flags, HF.TTL) and 25 or 19 end

function HF.group(r)
  local flags = string.byte(r, 14)
  if not has(flags, HF.GROUP) then return nil end
  local at = group_at(flags)
  local n = struct.unpack('>I2', r, at)
  return string.sub(r, at + 2, at + 1 + n)
end

function HF.unique(r)
  local flags = string.byte(r, 14)
  if not has(flags, HF.UNIQUE) then return nil end
  local at = group_at(flags)
  if has(flags, HF.GROUP) then at = at + 2 + struct.unpack('>I2', r, at) end
  local n = struct.unpack('>I2', r, at)
  return string.sub(r, at + 2, at + 1 + n)
end

-- Remember that this queue has had a message with these flags; attributes matter to nobody here.
function HF.mark_kinds(q, r)
  local flags = string.byte(r, 14)
  for _, flag in ipairs({ HF.GROUP, HF.TTL, HF.UNIQUE, HF.REF }) do
    if has(flags, flag) and not has(q.kinds, flag) then q.kinds = q.kinds + flag end
  end
end

-- An envelope is what the sender supplies: bytes 13 on. False if it cannot be one.
function HF.envelope_ok(e)
  if #e < 6 then return false end
  local priority, flags = string.byte(e, 1, 2)
  if priority > 9 or flags > 15 then return false end
  if flags == 0 then return true end
  local at, size = 7, #e
  if has(flags, HF.TTL) then at = at + 6 end
  for _, flag in ipairs({ HF.GROUP, HF.UNIQUE }) do
    if has(flags, flag) then
      if at + 1 > size then return false end
      local n = struct.unpack('>I2', e, at)
      if n == 0 then return false end
      at = at + 2 + n
    end
  end
  if has(flags, 1) then
    if at + 3 > size then return false end
    at = at + 4 + struct.unpack('>I4', e, at)
  end
  return at - 1 <= size
end

-- Bytes of what the sender supplied after the head.
function HF.content_size(r)
  if string.byte(r, 14) < HF.REF then return #r - 18 end
  return struct.unpack('>I4', r, #r - 3)
end

-- What a message is to a subscription when its envelope lies at the topic.
function HF.reference(r)
  local flags = string.byte(r, 14)
  local kept = flags % 8 - flags % 2
  local at = group_at(flags)
  if has(flags, HF.GROUP) then at = at + 2 + struct.unpack('>I2', r, at) end
  return string.sub(r, 1, 13) .. string.char(kept + HF.REF) .. string.sub(r, 15, at - 1) .. struct.pack('>I4', #r - 18)
end

-- Messages leave the queue for good: what else was kept for them goes too.
function HF.forget(q, records)
  HF.free_names(q, records)
  if q.kinds >= HF.REF then HF.let_go(q, records) end
end
