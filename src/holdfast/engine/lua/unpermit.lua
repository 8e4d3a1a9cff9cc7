--[[ unpermit: places of a concurrency limit are free again.
  KEYS   limit
  ARGV   holders
  Reply  how many of them held one
  Errors INVALID
  Cost   O(log permits) per holder
  Flags  allow-oom                                                                              ]]

function T.unpermit(keys, args)
  if #args == 0 then error({ err = 'INVALID give at least one holder' }) end
  local freed = 0
  for i = 1, #args, 1000 do
    freed = freed + redis.call('ZREM', keys[1] .. K.permits, unpack(args, i, math.min(i + 999, #args)))
  end
  return freed
end
