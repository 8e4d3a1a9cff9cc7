--[[ sources: the lists in which ready messages lie: levels, and groups by pages.
  KEYS   queue
  ARGV   cursor (0: start)
  Reply  cursor to go on with ('0': done), levels in use as digits, then groups
  Errors INVALID
  Cost   O(100)
  Flags  no-writes                                                                              ]]

function T.sources(keys, args)
  HF.integer(args[1], 'cursor', 0, 2 ^ 64)
  local q = HF.open(keys[1])
  local page = redis.call('HSCAN', q.base .. K.slots, args[1], 'COUNT', 100)
  local reply = { page[1], table.concat(HF.ready_levels(q, true)) }
  for i = 1, #page[2], 2 do reply[#reply + 1] = page[2][i] end
  return reply
end
