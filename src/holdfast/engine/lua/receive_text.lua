--[[ receive_text: receive for hands and other languages: receipts as text, bodies as they are.
  KEYS   queue
  ARGV   count, lease_ms as receive
  Reply  per message: receipt, body, how often it was delivered
  Errors INVALID
  Cost   as receive, and the checksums
  Flags  allow-oom                                                                              ]]

function T.receive_text(keys, args)
  local got, list, corrupt = T.receive(keys, { args[1], args[2], '0' }), {}, { 'bury', '0', 'corrupt: the checksum does not match' }
  local n = #got - 5
  for i = 1, n do
    local r, batch = got[i], got[n + 1] + math.floor((i - 1) / HF.BATCH)
    local body = HF.body(r)
    if body then
      list[#list + 1] = { string.format('%s@%.0f', HF.id_text(r), batch), body, HF.receives(r) + 1 }
    else
      corrupt[#corrupt + 1] = struct.pack('>I6', batch) .. string.sub(r, 1, 10)
    end
  end
  if #corrupt > 3 then T.nack(keys, corrupt) end
  return list
end
