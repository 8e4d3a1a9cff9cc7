--[[ Events: one note per call and kind, published while somebody listens, and kept where the
  journal is on. Both carry the same bytes, which engine/notes.py expands to one event a message:

    kind u8, time u48, lease u48, reason u16+…, then per message: id 10, priority 1, receives u16,
    size u32, at u48 (sent, requeued, redriven, rescheduled: due time or 0; else the lease's end)

  HF.noting(q) first: where nobody cares, no note is even built.                                ]]

HF.EVENT = { sent = 1, received = 2, requeued = 3, dead = 4, dead_received = 5, redriven = 6,
  acked = 7, expired = 8, removed = 9, extended = 10, dropped = 11, rescheduled = 12 }

function HF.noted(settings, listening, now) return settings.journal == 1 or listening > now end
function HF.noting(q) return HF.noted(q.settings, q.listening, q.now) end

function HF.note(q, event, records, at, reason, lease_ms)
  if #records == 0 or not HF.noting(q) then return end
  reason = string.sub(reason or '', 1, HF.LONGEST)
  local parts = { struct.pack('>BI6I6I2', HF.EVENT[event], q.now, lease_ms or 0, #reason), reason }
  local fixed = type(at) == 'number' and struct.pack('>I6', at) or nil
  for i = 1, #records do
    local r = records[i]
    parts[#parts + 1] = string.sub(r, 1, 10) .. string.sub(r, 13, 13)
      .. struct.pack('>I2I4', HF.receives(r), HF.content_size(r)) .. (fixed or struct.pack('>I6', at and at[i] or 0))
  end
  local text = table.concat(parts)
  if q.listening > q.now then redis.call('SPUBLISH', q.base .. K.events, text) end
  if q.settings.journal == 1 then
    redis.call('XADD', q.base .. K.journal, 'MAXLEN', '~', q.settings.journal_max, '*', 'e', text)
  end
end
