--[[ Nothing is written before it is certain that everything can be.

  An error inside a function leaves earlier writes in place. All that can go wrong once the arguments
  are checked is a key of another type, put there by somebody who is not us. HF.fit looks at the type
  of every key that a transition may write to, the groups of `records` among them; after it, a
  transition cannot stop half way. Send of plain messages, receive and ack, which write to two or
  three keys only, get the same by the order of their writes, and do without where they can.

  HF.moment and HF.packed_id check arguments that several transitions take.                     ]]

local SKIP = { ready = true, group = true, leased = true, packed = true, last_send = true, last_one = true, last_numbers = true, stamp = true, ledger = true,
  events = true,
  seats = true, seen = true, bodies = true, takers = true, reserved = true, places = true, condemned = true,
  cancelled = true, result = true, gate = true, rate = true, permits = true }

local function fit(key, kind)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= kind then
    error({ err = 'WRONGTYPE ' .. key .. ' holds a ' .. found .. ', and is no part of a Holdfast queue' })
  end
  return found
end

function HF.fit(q, records)
  for name, suffix in pairs(K) do
    if not SKIP[name] then fit(q.base .. suffix, HF.TYPES[name]) end
  end
  for level = 0, 9 do fit(q.base .. K.ready .. level, 'list') end
  HF.fit_groups(q, records)
end

function HF.fit_groups(q, records)
  for i = 1, #records do
    local group = string.byte(records[i], 14) % 4 >= HF.GROUP and HF.group(records[i])
    if group then fit(q.base .. K.group .. group, 'list') end
  end
end

HF.fit_key = fit

-- The same for the envelopes that this queue shares with others of its topic, if it does: they are read
-- and let go of after other writes.
function HF.fit_bodies(q)
  if q.kinds < HF.REF then return end
  local base = HF.topic_base(q)
  fit(base .. K.bodies, 'hash')
  fit(base .. K.takers, 'hash')
end

-- The same for the marker alone, where somebody may be waiting for it. If there is none, HF.wake is told.
function HF.fit_wake(q)
  if q.waiting > q.now then q.unmarked = fit(q.base .. K.wake, 'list') == 'none' end
end

-- A point in time: '+' and ms from now, or '@' and ms since 1970.
function HF.moment(q, when)
  local sign = type(when) == 'string' and string.sub(when, 1, 1)
  if sign ~= '+' and sign ~= '@' then
    error({ err = "INVALID a time must be '+' and ms from now, or '@' and ms since 1970" })
  end
  local ms = HF.integer(string.sub(when, 2), 'a time', 0, HF.FOREVER)
  return sign == '+' and q.now + ms or ms
end

function HF.packed_id(id)
  if type(id) ~= 'string' or #id ~= 10 then error({ err = 'INVALID an id must have 10 bytes' }) end
  return id
end
