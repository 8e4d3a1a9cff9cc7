--[[ find: look for a ready message in one list, a piece at a time, from its end to its head.
  From the end, because receivers take from the head: what they take moves nothing we have yet to
  see. What was put back at the head since (`back`) shifts the rest, and the cursor with it.
  KEYS   queue
  ARGV   id, list (a level 0–9, or 'g' and a group), cursor (-1: start), back, remove (0 | 1)
  Reply  the message; or cursor and back to go on with, cursor 0 when all has been seen
  Errors INVALID
  Cost   O(1,000) per call
  Named  yes
  Flags  allow-oom                                                                              ]]

function T.find(keys, args)
  local id, list, remove = HF.packed_id(args[1]), args[2] or '', args[5] == '1'
  local cursor = HF.integer(args[3], 'cursor', -1, HF.FOREVER)
  local back = HF.integer(args[4], 'back', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit_bodies(q)
  local group = string.sub(list, 1, 1) == 'g' and string.sub(list, 2)
  local key = group and q.base .. K.group .. group or q.base .. K.ready .. HF.integer(list, 'level', 0, 9)
  local length = redis.call('LLEN', key)
  local high = cursor < 0 and length or math.min(cursor + q.back - back, length)
  local low = math.max(high - 1000, 0)
  local entries = high > 0 and redis.call('LRANGE', key, low, high - 1) or {}
  for i = 1, #entries do
    local r = entries[i]
    if string.sub(r, 1, 10) == id then
      local whole = HF.fill(q, { r }, HF.in_record)[1]
      if remove then
        if group then
          redis.call('LREM', key, 1, r)
          q.grouped = q.grouped - 1
        else
          redis.call('LSET', key, low + i - 1, string.char(HF.TOMB))
          q.tombs = q.tombs + 1
        end
        q.removed = q.removed + 1
        HF.forget(q, { r })
        HF.note(q, 'removed', { r })
        HF.save(q)
      end
      return whole
    end
  end
  return { low, q.back }
end
