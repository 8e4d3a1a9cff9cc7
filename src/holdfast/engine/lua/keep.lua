--[[ keep: store a result as settle does, of work that had no delivery: cancelled before anybody had it,
  or carried out on the spot.
  KEYS   queue
  ARGV   tail, result, ttl_ms
  Reply  1
  Errors INVALID
  Cost   O(1)
  Flags  deny-oom                                                                               ]]

function T.keep(keys, args)
  if #args ~= 3 or args[1] == '' then error({ err = 'INVALID give tail, result and ttl_ms' }) end
  HF.keep_result(keys[1], args[1], args[2], HF.integer(args[3], 'ttl_ms', 1, HF.FOREVER))
  return 1
end
