--[[ The ready state: one list per priority, whole messages in it.

  `levels` in the state has bit p set if list p may hold something, so that a queue that uses one
  priority looks at one list. Taking is in two steps, pick then drop: the message is written to
  its new place before it leaves this one, so that an error in between can never lose it.       ]]

function HF.with_level(levels, level)
  local bit = 2 ^ level
  return math.floor(levels / bit) % 2 == 0 and levels + bit or levels
end

function HF.mark_level(q, level) q.levels = HF.with_level(q.levels, level) end

local function marked(q, highest_first)
  local list = {}
  for i = 0, 9 do
    local level = highest_first and 9 - i or i
    if math.floor(q.levels / 2 ^ level) % 2 == 1 then list[#list + 1] = level end
  end
  return list
end

-- The level in use, if it is one only.
local LEVEL_OF = { [1] = 0, [2] = 1, [4] = 2, [8] = 3, [16] = 4, [32] = 5, [64] = 6, [128] = 7, [256] = 8, [512] = 9 }
function HF.only_level(q) return LEVEL_OF[q.levels] end

-- Are there nothing but whole messages, none of which can expire? Then nobody need look at each.
function HF.ready_is_plain(q)
  return q.tokens + q.tombs + q.settings.ttl_ms + q.settings.aging_ms == 0
    and math.floor(q.kinds / HF.TTL) % 2 == 0
end

-- Put messages at the tail, or (returned ones, in their order) at the head, of their levels.
function HF.ready_push(q, records, first)
  local by_level, grouped = {}, {}
  for i = 1, #records do
    local r = records[i]
    HF.may_expire(q, r)
    local level, flags = string.byte(r, 13, 14)
    if flags % 4 >= HF.GROUP then
      grouped[#grouped + 1] = r
    else
      local list = by_level[level]
      if not list then list = {} by_level[level] = list end
      list[#list + 1] = r
    end
  end
  for level, list in pairs(by_level) do
    HF.mark_level(q, level)
    local key, n = q.base .. K.ready .. level, #list
    if first then
      for i = 1, n / 2 do list[i], list[n - i + 1] = list[n - i + 1], list[i] end
      HF.each('LPUSH', key, list, 1, n)
      q.back = q.back + n
    else
      HF.each('RPUSH', key, list, 1, n)
    end
  end
  if first then
    for i = #grouped, 1, -1 do HF.group_return(q, grouped[i]) end
  else
    HF.group_append(q, grouped)
  end
end

-- Entries examined in one call at most beyond those asked for: a long run of expired messages, tombstones or
-- tokens of empty groups must not hold the server.
local SLACK = 5000

local function new_pick(count, whole)
  return { whole = whole and count, most = count + SLACK,
    records = {}, n = 0, expired = {}, examined = 0, used = {}, groups = {}, places = {}, held = {}, idle = {}, unfinished = {},
    tombs = 0, tokens = 0, from_groups = 0 }
end

local function keep(q, pick, r)
  pick.examined = pick.examined + 1
  if (q.settings.ttl_ms > 0 or math.floor(string.byte(r, 14) / 4) % 2 == 1) and HF.expires(q, r) <= q.now then
    pick.expired[#pick.expired + 1] = r
    return false
  end
  pick.n = pick.n + 1
  pick.records[pick.n] = r
  return true
end

-- Learn how many places the groups of these tokens have, in one command.
local function know_places(q, pick, entries)
  if q.tokens == 0 then return end
  local groups = {}
  for i = 1, #entries do
    if string.byte(entries[i], 1) == HF.TOKEN then
      local group = string.sub(entries[i], 2)
      if not pick.places[group] then groups[#groups + 1], pick.places[group] = group, 0 end
    end
  end
  if #groups == 0 then return end
  for i, places in ipairs(HF.hmget(q.base .. K.slots, groups)) do pick.places[groups[i]] = tonumber(places or 0) end
end

-- A token finds nothing to stand for: its place is given up.
local function give_up(pick, group)
  pick.idle[#pick.idle + 1], pick.examined = group, pick.examined + 1
  pick.places[group] = pick.places[group] - 1
end

-- A token stands for the first message of its group that has not expired; to one who takes a group
-- whole, for all that there is room for. One that was offered while the limit was higher stands for nothing.
local function redeem(q, pick, group)
  pick.tokens = pick.tokens + 1
  pick.places[group] = pick.places[group] or 0
  if pick.places[group] > q.settings.group_limit then return give_up(pick, group) end
  local most, held = math.max(pick.most, pick.examined + 1), false
  while pick.examined < most do
    local at = pick.groups[group] or 0
    local r = redis.call('LINDEX', q.base .. K.group .. group, at)
    if not r then
      if not held then give_up(pick, group) end
      return
    end
    pick.groups[group] = at + 1
    pick.from_groups = pick.from_groups + 1
    if keep(q, pick, r) then
      if not held then pick.held[group] = (pick.held[group] or 0) + 1 end
      held = true
      if not pick.whole or pick.n >= pick.whole then return end
    end
  end
  if held then return end
  pick.unfinished[#pick.unfinished + 1] = group
end

-- Look at one entry of a ready list and add what it stands for to `pick`.
local function consider(q, pick, entry)
  local kind = string.byte(entry, 1)
  if kind == HF.TOMB then
    pick.tombs, pick.examined = pick.tombs + 1, pick.examined + 1
  elseif kind == HF.TOKEN then
    redeem(q, pick, string.sub(entry, 2))
  else
    keep(q, pick, entry)
  end
end

-- `expired_too`: those that have expired count as well.
local function pick_by_level(q, count, highest_first, whole, expired_too)
  local pick = new_pick(count, whole)
  local plain = HF.ready_is_plain(q)
  local function left() return count - pick.n - (expired_too and #pick.expired or 0) end
  for _, level in ipairs(marked(q, highest_first)) do
    local key, at = q.base .. K.ready .. level, 0
    while left() > 0 and pick.examined < pick.most do
      local want = math.min(left(), 1000)
      local entries = redis.call('LRANGE', key, at, at + want - 1)
      local seen = #entries
      if plain and pick.n == 0 then
        pick.records, pick.n, pick.examined = entries, seen, seen
      else
        know_places(q, pick, entries)
        for i = 1, #entries do
          consider(q, pick, entries[i])
          if left() <= 0 or pick.examined >= pick.most then
            seen = i
            break
          end
        end
      end
      at = at + seen
      pick.used[level] = { at, seen < want and seen == #entries }
      if seen < want then break end
    end
    if left() <= 0 then break end
  end
  return pick
end

-- With aging, a message gains one level for each `aging_ms` it has waited. Heads of all levels are
-- merged by that; within a level the order stays.
local function pick_by_age(q, count, whole)
  local pick, heads, levels = new_pick(count, whole), {}, marked(q, true)
  local page = math.min(count, 1000)
  local function head_of(level)
    local h = heads[level]
    if h.at == #h.list and not h.exhausted then
      h.passed, h.at = h.passed + #h.list, 0
      h.list = redis.call('LRANGE', q.base .. K.ready .. level, h.passed, h.passed + page - 1)
      h.exhausted = #h.list < page
      know_places(q, pick, h.list)
    end
    return h.list[h.at + 1]
  end
  local function rank(level, entry)
    if string.byte(entry, 1) == HF.TOKEN then
      local group = string.sub(entry, 2)
      entry = redis.call('LINDEX', q.base .. K.group .. group, pick.groups[group] or 0)
    end
    -- What stands for no message is best got out of the way.
    if not entry or string.byte(entry, 1) == HF.TOMB then return HF.FOREVER end
    return level + math.floor((q.now - (struct.unpack('>I6', entry))) / q.settings.aging_ms)
  end
  for _, level in ipairs(levels) do heads[level] = { list = {}, at = 0, passed = 0 } end
  while pick.n < count and pick.examined < pick.most do
    local best, best_rank
    for _, level in ipairs(levels) do
      local h, entry = heads[level], head_of(level)
      if entry then
        h.rank = h.rank or rank(level, entry)
        if not best or h.rank > best_rank then best, best_rank = level, h.rank end
      end
    end
    if not best then break end
    local h = heads[best]
    h.at, h.rank = h.at + 1, nil
    consider(q, pick, h.list[h.at])
  end
  for level, h in pairs(heads) do
    pick.used[level] = { h.passed + h.at, h.exhausted and h.at == #h.list }
  end
  return pick
end

-- Up to `count` messages that may go out now; nothing is changed yet. `whole`: all that a group has,
-- not only its first.
function HF.ready_pick(q, count, whole)
  if q.settings.aging_ms > 0 then return pick_by_age(q, count, whole) end
  return pick_by_level(q, count, true, whole)
end

-- The oldest of the lowest priority: what gives way when the queue is full. `expired_too`: `count` of these and of
-- what has expired, together.
function HF.ready_pick_oldest(q, count, whole, expired_too) return pick_by_level(q, count, false, whole, expired_too) end

-- Take away what was picked. Call after it is safe elsewhere.
function HF.ready_drop(q, pick)
  for level, use in pairs(pick.used) do
    if use[1] > 0 then redis.call('LTRIM', q.base .. K.ready .. level, use[1], -1) end
    if use[2] then q.levels = q.levels - 2 ^ level end
  end
  for group, n in pairs(pick.groups) do redis.call('LTRIM', q.base .. K.group .. group, n, -1) end
  q.grouped, q.tokens, q.tombs = q.grouped - pick.from_groups, q.tokens - pick.tokens, q.tombs - pick.tombs
  for _, group in ipairs(pick.idle) do HF.group_leave(q, group) end
  for _, group in ipairs(pick.unfinished) do HF.group_settle(q, group) end
  if #pick.expired > 0 then
    q.expired = q.expired + #pick.expired
    HF.forget(q, pick.expired)
    HF.note(q, 'expired', pick.expired)
  end
end

-- How many messages are ready, those waiting behind their group included.
function HF.ready_count(q)
  local n = q.grouped - q.tokens - q.tombs
  for _, level in ipairs(marked(q, true)) do n = n + redis.call('LLEN', q.base .. K.ready .. level) end
  return n
end

-- Is there something that a receive would get now?
function HF.ready_any(q)
  if q.levels == 0 then return false end
  for _, level in ipairs(marked(q, true)) do
    if redis.call('EXISTS', q.base .. K.ready .. level) == 1 then return true end
  end
  return false
end

HF.ready_levels = marked
