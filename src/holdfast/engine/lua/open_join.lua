--[[ open_join: a gate that `total` are to reach before what is behind it may go on.
  KEYS   flow
  ARGV   gate, total, rest (whatever is to be known once all are there), keep_ms
  Reply  1 if it is new; 0 if it is there already, and stays as it is
  Errors INVALID
  Cost   O(1)
  Flags  deny-oom

  A gate is a hash: total, rest, and the result of each who has come, by its index. It ends by itself
  keep_ms after the last who came, so that repetitions find it, and nobody has to clear it away. ]]

function T.open_join(keys, args)
  if #args ~= 4 or args[1] == '' then error({ err = 'INVALID give gate, total, rest and keep_ms' }) end
  local total = HF.integer(args[2], 'total', 0, 100000)
  local keep_ms = HF.integer(args[4], 'keep_ms', 1, HF.FOREVER)
  local key = keys[1] .. K.gate .. args[1]
  if redis.call('HSETNX', key, 'total', total) == 0 then return 0 end
  redis.call('HSET', key, 'rest', args[3])
  redis.call('PEXPIRE', key, keep_ms)
  return 1
end
