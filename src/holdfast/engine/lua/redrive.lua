--[[ redrive: dead letters become ready again, in the order they died, as if never tried; with their unique names,
  unless others have taken these.
  KEYS   queue
  ARGV   gap_us, offset, then count, or 'ids' and ids. gap_us spaces them out: the i-th one of this
         call falls due after (offset + i) · gap_us.
  Reply  the ids moved
  Errors INVALID
  Cost   O(log dead) per message; at most 1,000 are moved
  Named  yes                                                                                    ]]

function T.redrive(keys, args)
  local gap_us = HF.integer(args[1], 'gap_us', 0, HF.FOREVER)
  local offset = HF.integer(args[2], 'offset', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  local asked
  if args[3] == 'ids' then
    asked = {}
    for i = 4, math.min(#args, 1003) do asked[#asked + 1] = HF.packed_id(args[i]) end
  else
    local count = HF.integer(args[3], 'count', 1, HF.FOREVER)
    asked = redis.call('ZRANGE', q.base .. K.died, 0, math.min(count, 1000) - 1)
  end
  local ids, values = HF.dead_get(q, asked)
  if #ids == 0 then return ids end
  local records = HF.dead_records(values)
  HF.fit(q, records)
  local now, later, times, all, ats = {}, {}, {}, {}, {}
  for i, r in ipairs(records) do
    r = HF.with_receives(r, 0)
    local at = q.now + math.floor((offset + i - 1) * gap_us / 1000)
    all[i], ats[i] = r, at > q.now and at or 0
    if at > q.now then
      later[#later + 1], times[#times + 1] = r, at
    else
      now[#now + 1] = r
    end
  end
  if #later > 0 then HF.delay(q, later, times) end
  HF.ready_push(q, now, false)
  HF.take_names_back(q, all)
  HF.dead_drop(q, ids)
  if #now > 0 then HF.wake(q) end
  q.redriven = q.redriven + #ids
  HF.note(q, 'redriven', all, ats)
  HF.save(q)
  return ids
end
