--[[ Ordering groups. Messages of a group wait in a list of their own; the ready list holds a token
  in their place. Receiving a token takes the head of the group's list; the token goes back to the
  tail when that message is settled. So at most `group_limit` are in flight, order inside a group
  is strict, and groups take turns; messages without a group pay nothing.

  slots[group] = tokens offered + messages in flight (a delayed retry counts as in flight, or the
  next message would overtake it). A token too many finds an empty list, or more places than the limit
  by now allows, and is dropped.

  Whatever frees a group's next message offers a token, and so wakes whoever waits.             ]]

-- Groups looked at in one call at most.
local LOOK = 10000

local function offer(q, group, level, first)
  redis.call(first and 'LPUSH' or 'RPUSH', q.base .. K.ready .. level, string.char(HF.TOKEN) .. group)
  if first then q.back = q.back + 1 end
  q.tokens = q.tokens + 1
  HF.mark_level(q, level)
  HF.wake(q)
end

-- New messages at the tail of their groups.
function HF.group_append(q, records)
  for i = 1, #records do
    local r = records[i]
    local group = HF.group(r)
    redis.call('RPUSH', q.base .. K.group .. group, r)
    q.grouped = q.grouped + 1
    local taken = tonumber(redis.call('HGET', q.base .. K.slots, group) or 0)
    if taken < q.settings.group_limit then
      redis.call('HSET', q.base .. K.slots, group, taken + 1)
      offer(q, group, HF.priority(r), false)
    end
  end
end

-- A message that held a place is out of flight for good: offer the place again, or give it up. `first`:
-- before all others.
function HF.group_settle(q, group, first)
  local taken = tonumber(redis.call('HGET', q.base .. K.slots, group) or 0)
  local head = redis.call('LINDEX', q.base .. K.group .. group, 0)
  if head and taken <= q.settings.group_limit then
    offer(q, group, HF.priority(head), first)
    -- The limit was raised: grow towards it, one place at a time.
    if taken < q.settings.group_limit and redis.call('LLEN', q.base .. K.group .. group) > 1 then
      redis.call('HSET', q.base .. K.slots, group, taken + 1)
      offer(q, group, HF.priority(head), false)
    end
  else
    HF.group_leave(q, group)
  end
end

function HF.group_leave(q, group)
  if redis.call('HINCRBY', q.base .. K.slots, group, -1) <= 0 then
    redis.call('HDEL', q.base .. K.slots, group)
  end
end

-- A message that held a place comes back before all others of its group, and is next to go out.
function HF.group_return(q, r)
  local group = HF.group(r)
  redis.call('LPUSH', q.base .. K.group .. group, r)
  q.grouped, q.back = q.grouped + 1, q.back + 1
  offer(q, group, HF.priority(r), true)
end

-- Take up to `n` waiting messages out of the groups' lists, wherever there are any. Tokens stay: one
-- that finds nothing is dropped. Looks at some 10,000 groups at most, beginning anywhere: a group that is
-- empty by now stays among them while it has a place, and must not be what every call begins with.
function HF.groups_take(q, n)
  local taken, cursor, looked, rounds = {}, redis.call('TIME')[2], 0, 0
  repeat
    local page = redis.call('HSCAN', q.base .. K.slots, cursor, 'COUNT', 100)
    cursor, looked = page[1], looked + 1 + #page[2] / 2
    if cursor == '0' then rounds = rounds + 1 end
    for i = 1, #page[2], 2 do
      local key = q.base .. K.group .. page[2][i]
      local part = #taken < n and redis.call('LRANGE', key, 0, n - #taken - 1) or {}
      for j = 1, #part do taken[#taken + 1] = part[j] end
      if #part > 0 then redis.call('LTRIM', key, #part, -1) end
    end
  until #taken >= n or looked >= LOOK or rounds == 2
  q.grouped = q.grouped - #taken
  return taken
end

-- Settle the groups of messages that leave flight without coming back.
function HF.groups_settle(q, records)
  for i = 1, #records do
    local flags = string.byte(records[i], 14)
    if flags % 4 >= HF.GROUP then HF.group_settle(q, HF.group(records[i])) end
  end
end
