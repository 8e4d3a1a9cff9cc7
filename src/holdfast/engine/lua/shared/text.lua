--[[ Messages as people and other languages write them: ids and receipts as text, bodies as they are,
  and the checksum computed here, because nobody should have to pack bytes to say hello. Slower than
  the packed forms by some 60 ns a byte of body: clients that matter pack.                      ]]

local crc_table

local function crc32(text)
  local bxor, band, rshift = bit.bxor, bit.band, bit.rshift
  if not crc_table then
    crc_table = {}
    for i = 0, 255 do
      local c = i
      for _ = 1, 8 do c = c % 2 == 1 and bxor(0xEDB88320, rshift(c, 1)) or rshift(c, 1) end
      crc_table[i] = c
    end
  end
  local c = 0xFFFFFFFF
  for i = 1, #text do
    c = bxor(crc_table[band(bxor(c, string.byte(text, i)), 0xFF)], rshift(c, 8))
  end
  return bxor(c, 0xFFFFFFFF) % 2 ^ 32
end

function HF.text_envelope(priority, body)
  local kind = string.char(priority, 0)
  return kind .. struct.pack('>I4', crc32(kind .. body)) .. body
end

-- The body of a message, or nil if the message is not as it was sent.
function HF.body(r)
  local flags, at = string.byte(r, 14), 19
  if flags >= HF.REF or crc32(string.sub(r, 13, 14) .. string.sub(r, 19)) ~= struct.unpack('>I4', r, 15) then return nil end
  if flags % 8 >= HF.TTL then at = at + 6 end
  if flags % 4 >= HF.GROUP then at = at + 2 + struct.unpack('>I2', r, at) end
  if flags >= HF.UNIQUE then at = at + 2 + struct.unpack('>I2', r, at) end
  if flags % 2 == 1 then at = at + 4 + struct.unpack('>I4', r, at) end
  return string.sub(r, at)
end

function HF.id_text(id)
  local ms, seq = struct.unpack('>I6I4', id)
  return string.format('%.0f-%.0f', ms, seq)
end

-- Receipts 'ms-seq@batch', or ids 'ms-seq', as ack takes them.
function HF.packed_receipts(args, from)
  local list = {}
  if #args < from then error({ err = 'INVALID give at least one receipt or id' }) end
  for i = from, #args do
    local ms, seq, at, batch = string.match(args[i], '^(%d+)-(%d+)(@?)(%d*)$')
    ms, seq, batch = tonumber(ms), tonumber(seq), (at == '' and batch == '') and 0 or at == '@' and tonumber(batch)
    if not ms or not batch or ms >= 2 ^ 48 or seq >= 2 ^ 32 or batch >= 2 ^ 48 then
      error({ err = 'INVALID a receipt looks like 1599352749159-4@17, an id like 1599352749159-4' })
    end
    list[#list + 1] = struct.pack('>I6I6I4', batch, ms, seq)
  end
  return list
end

-- Those of args[from..] that are not at the (0-based) positions `lost`.
function HF.without(args, from, lost)
  local gone, list = {}, {}
  for _, place in ipairs(lost) do gone[place] = true end
  for i = from, #args do
    if not gone[i - from] then list[#list + 1] = args[i] end
  end
  return list
end
