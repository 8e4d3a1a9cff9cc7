--[[ Clearing expired messages away where nobody receives. A receive drops those that it meets; a queue that
  nobody polls, and what a topic holds, must be looked through by tend.

  A call looks at the head of each ready list, and behind it at one page more: from where the last call left
  off (`swept` in the queue's hash: level, position), so that neither a token, a tombstone nor a message that
  lives longer keeps anybody from what lies behind it. What expired at the head goes; what expired further on
  becomes a tombstone. A token stands for its group, whose own list is looked at in its stead; where
  that is empty the token is a tombstone too.

  Positions move while messages come and go: one that a call missed is met when the next round comes by. ]]

local FIELD = 'swept'

-- Messages of groups that go with one page of a ready list, about.
local STEP = 1000

-- How many at the head of a group's list have expired, and whether nothing is left of it.
local function look_at_group(q, page, group, over)
  local key, n = q.base .. K.group .. group, 0
  local waiting = { redis.call('LINDEX', key, 0) or nil }
  if waiting[1] and over(waiting[1]) and #page.expired < STEP then waiting = redis.call('LRANGE', key, 0, STEP - 1) end
  while waiting[n + 1] and #page.expired < 2 * STEP and over(waiting[n + 1]) do
    n = n + 1
    page.expired[#page.expired + 1] = waiting[n]
  end
  return { gone = n, empty = n == redis.call('LLEN', key) }
end

-- What is to be done with a page of a ready list; nothing is written yet. `over(r)`: has it expired?
local function look(q, level, at, size, over)
  local page = { key = q.base .. K.ready .. level, at = at, expired = {}, tombs = {}, groups = {}, idle = {}, lead = 0, old_tombs = 0 }
  local entries, leading = redis.call('LRANGE', page.key, at, at + size - 1), at == 0
  page.seen = #entries
  for i, entry in ipairs(entries) do
    local kind, goes, was_tomb = string.byte(entry, 1), false, false
    if kind == HF.TOMB then
      goes, was_tomb = true, true
    elseif kind == HF.TOKEN then
      local group = string.sub(entry, 2)
      page.groups[group] = page.groups[group] or look_at_group(q, page, group, over)
      if page.groups[group].empty then goes, page.idle[#page.idle + 1] = true, group end
    elseif over(entry) then
      goes, page.expired[#page.expired + 1] = true, entry
    else
      page.live = true
    end
    if not goes then
      leading = false
    elseif leading then
      page.lead, page.old_tombs = page.lead + 1, page.old_tombs + (was_tomb and 1 or 0)
    elseif not was_tomb then
      page.tombs[#page.tombs + 1] = at + i - 1
    end
  end
  return page
end

-- True if there was anything to do.
local function clear(q, page)
  if #page.expired + #page.idle + page.lead == 0 then return false end
  HF.fit(q, {})
  for _, place in ipairs(page.tombs) do redis.call('LSET', page.key, place, string.char(HF.TOMB)) end
  if page.lead > 0 then redis.call('LTRIM', page.key, page.lead, -1) end
  q.tombs = q.tombs + #page.tombs - page.old_tombs
  q.tokens = q.tokens - #page.idle
  for group, first in pairs(page.groups) do
    if first.gone > 0 then
      redis.call('LTRIM', q.base .. K.group .. group, first.gone, -1)
      q.grouped = q.grouped - first.gone
    end
  end
  for _, group in ipairs(page.idle) do HF.group_leave(q, group) end
  q.expired = q.expired + #page.expired
  HF.forget(q, page.expired)
  HF.note(q, 'expired', page.expired)
  return true
end

-- Where the page behind the heads begins: level and position.
local function resume(q, further, size)
  local level, at = string.match(redis.call('HGET', q.base, FIELD) or '', '^(%d) (%d+)$')
  level, at = tonumber(level), tonumber(at)
  for _, each in ipairs(further) do
    if each == level then return level, math.max(at, size) end
    if level and each < level then return each, size end
  end
  return further[1], size
end

-- True if anything went. `size`: of a page. `deep`: messages may live for different times, so that one that
-- lives says nothing of those behind it.
function HF.sweep(q, size, over, deep)
  local further, some = {}, false
  for _, level in ipairs(HF.ready_levels(q, true)) do
    local page = look(q, level, 0, size, over)
    some = clear(q, page) or some
    if page.seen == size and (deep or not page.live) then further[#further + 1] = level end
  end
  if #further == 0 then return some end
  local level, at = resume(q, further, size)
  local page = look(q, level, at, size, over)
  some = clear(q, page) or some
  -- The lowest list comes last, and then the first one again.
  if page.seen < size then
    level, at = level - 1, 0
  else
    at = at + size
  end
  if level < 0 then
    redis.call('HDEL', q.base, FIELD)
  else
    redis.call('HSET', q.base, FIELD, string.format('%d %.0f', level, at))
  end
  return some
end
