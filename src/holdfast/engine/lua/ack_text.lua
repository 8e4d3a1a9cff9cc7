--[[ ack_text: ack for hands and other languages.
  KEYS   queue
  ARGV   receipts 'ms-seq@batch', or ids 'ms-seq' for whichever delivery is current
  Reply  those really removed
  Errors INVALID
  Cost   as ack
  Flags  allow-oom                                                                              ]]

function T.ack_text(keys, args)
  return HF.without(args, 1, T.ack(keys, HF.packed_receipts(args, 1)))
end
