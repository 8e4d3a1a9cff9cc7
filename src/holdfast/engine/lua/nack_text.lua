--[[ nack_text: nack for hands and other languages.
  KEYS   queue
  ARGV   action (release | retry | bury), delay_ms, text, then receipts or ids as ack_text
  Reply  those really given back
  Errors INVALID
  Cost   as nack
  Flags  allow-oom                                                                              ]]

function T.nack_text(keys, args)
  local call = { args[1], args[2], args[3] }
  for _, receipt in ipairs(HF.packed_receipts(args, 4)) do call[#call + 1] = receipt end
  return HF.without(args, 4, T.nack(keys, call))
end
