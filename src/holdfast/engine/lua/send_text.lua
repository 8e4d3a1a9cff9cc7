--[[ send_text: send for hands and other languages: bodies as they are, ids as text.
  KEYS   queue
  ARGV   when ('' | '+' delay ms | '@' due ms), priority 0–9, bodies
  Reply  the ids, in order
  Errors INVALID, FULL, RESHARDED
  Cost   as send, and the checksums
  Flags  deny-oom                                                                               ]]

function T.send_text(keys, args)
  local priority = HF.integer(args[2], 'priority', 0, 9)
  if #args < 3 then error({ err = 'INVALID give at least one body' }) end
  local call = { '', 0, 0, 'full' }
  for i = 3, #args do
    call[#call + 1], call[#call + 2], call[#call + 3] = args[1], '', HF.text_envelope(priority, args[i])
  end
  local reply, ids = T.send(keys, call), {}
  for i = 0, #args - 3 do ids[i + 1] = string.format('%.0f-%.0f', reply[1], reply[2] + i) end
  return ids
end
