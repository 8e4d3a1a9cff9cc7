--[[ join: one of those that a gate waits for has come, with its result. The first result of an index stays.
  KEYS   flow
  ARGV   gate, index, result, keep_ms
  Reply  how many are missing; if none is: then rest, and all results in the order of their indexes,
         also to each repetition, so that one who dies before he goes on can be followed by another
  Errors INVALID, also if there is no such gate, or none any more
  Cost   O(1); O(total) once all are there
  Flags  allow-oom                                                                              ]]

function T.join(keys, args)
  if #args ~= 4 then error({ err = 'INVALID give gate, index, result and keep_ms' }) end
  local keep_ms = HF.integer(args[4], 'keep_ms', 1, HF.FOREVER)
  local key = keys[1] .. K.gate .. args[1]
  local found = redis.call('HMGET', key, 'total', 'rest')
  if not found[1] then
    error({ err = string.format('INVALID there is no gate %s: it was never opened, or nobody came for so long that it ended', args[1]) })
  end
  local total = tonumber(found[1])
  local index = HF.integer(args[2], 'index', 0, total - 1)
  redis.call('HSETNX', key, string.format('%.0f', index), args[3])
  redis.call('PEXPIRE', key, keep_ms)
  local missing = total - (redis.call('HLEN', key) - 2)
  if missing > 0 then return { missing } end
  local fields, reply = {}, { 0, found[2] }
  for i = 1, total do fields[i] = string.format('%.0f', i - 1) end
  for i, result in ipairs(HF.hmget(key, fields)) do reply[i + 2] = result end
  return reply
end
