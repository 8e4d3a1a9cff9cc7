--[[ Expired messages that wait are cleared away: where they would count, and where nobody receives.

  A receive drops those that it meets. A queue at its max_length looks for them before it refuses or drops
  anything, and tend where nobody polls. They may lie anywhere, so everything is looked through, some thousand
  messages a call, from where the last call stopped (`sweep` in the queue's hash). When all was seen, `soonest`
  in the state says before when nothing that waits can expire: whatever comes to wait lowers it, and until then
  nobody looks. 0: it is not known.

  Lists are walked from the end to the head: what receivers take moves nothing that is yet to be seen; what was
  put back at the head since (`back`) shifts the rest, and the place with it. What has expired in a ready list
  becomes a tombstone, and so does a token whose group is empty; tombstones at the head go.      ]]

local LIMIT = 5000
local PAGE = 1000
local GROUPS, DELAYED = 0, 11

-- This one comes to wait.
function HF.may_expire(q, r)
  if q.soonest > 0 then q.soonest = math.min(q.soonest, HF.expires(q, r)) end
end

-- What has expired at the heads of the ready lists, where most of it is.
local function sweep_heads(q, gone)
  for _, level in ipairs(HF.ready_levels(q, false)) do
    local key, n, tombs = q.base .. K.ready .. level, 0, 0
    for _, r in ipairs(redis.call('LRANGE', key, 0, PAGE - 1)) do
      local kind = string.byte(r, 1)
      if kind == HF.TOKEN or (kind ~= HF.TOMB and HF.expires(q, r) > q.now) then break end
      n = n + 1
      if kind == HF.TOMB then tombs = tombs + 1 else gone[#gone + 1] = r end
    end
    if n > 0 then redis.call('LTRIM', key, n, -1) end
    q.tombs = q.tombs - tombs
  end
end

-- Has this one expired?
local function is_over(q, s, r)
  s.looked = s.looked + 1
  local ends = HF.expires(q, r)
  if ends > q.now then s.soonest = math.min(s.soonest, ends) end
  return ends <= q.now
end

-- One page of a list; true when its head is reached. `take(index, message)` takes away what has expired,
-- `idle(index, group)` hears of tokens.
local function sweep_list(q, s, key, gone, take, idle)
  local length = redis.call('LLEN', key)
  local high = s.high and math.min(s.high + q.back - s.back, length) or length
  local low = math.max(high - PAGE, 0)
  local entries = high > 0 and redis.call('LRANGE', key, low, high - 1) or {}
  for i, r in ipairs(entries) do
    local kind = string.byte(r, 1)
    if kind >= HF.TOMB then
      s.looked = s.looked + 1
      if kind == HF.TOKEN then idle(low + i - 1, string.sub(r, 2)) end
    elseif is_over(q, s, r) then
      take(low + i - 1, r)
      gone[#gone + 1] = r
    end
  end
  s.high, s.back = low > 0 and low or nil, q.back
  return low == 0
end

local function sweep_level(q, s, gone)
  local key = q.base .. K.ready .. s.source - 1
  local function entomb(index)
    redis.call('LSET', key, index, string.char(HF.TOMB))
    q.tombs = q.tombs + 1
  end
  return sweep_list(q, s, key, gone, entomb, function(index, group)
    if redis.call('EXISTS', q.base .. K.group .. group) == 1 then return end
    entomb(index)
    q.tokens = q.tokens - 1
    HF.group_leave(q, group)
  end)
end

-- Some groups, each to its end.
local function sweep_groups(q, s, gone)
  local page = redis.call('HSCAN', q.base .. K.slots, s.cursor, 'COUNT', 100)
  local from
  for i = 1, #page[2], 2 do if page[2][i] == s.group then from = i end end
  if not from then from, s.high = 1, nil end  -- a place in a group that is gone
  for i = from, #page[2], 2 do
    if s.looked >= s.limit then return false end
    local key = q.base .. K.group .. page[2][i]
    HF.fit_key(key, 'list')
    s.group, s.looked = page[2][i], s.looked + 1
    local function take(_, r)
      redis.call('LREM', key, 1, r)
      q.grouped = q.grouped - 1
    end
    while not sweep_list(q, s, key, gone, take) do
      if s.looked >= s.limit then return false end
    end
  end
  s.cursor, s.group = page[1], nil
  return s.cursor == '0'
end

local function sweep_delayed(q, s, gone)
  local page = redis.call('HSCAN', q.base .. K.delayed, s.cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do
    local id, r = page[2][i], page[2][i + 1]
    if is_over(q, s, r) then
      redis.call('HDEL', q.base .. K.delayed, id)
      redis.call('ZREM', q.base .. K.due, id)
      if HF.keeps_place(r) then HF.groups_settle(q, { r }) end
      gone[#gone + 1] = r
    end
  end
  s.cursor = page[1]
  return s.cursor == '0'
end

local function sweep_all(q, s, gone)
  while s.source <= DELAYED do
    if s.looked >= s.limit then return false end
    local step = s.source == GROUPS and sweep_groups or s.source == DELAYED and sweep_delayed or sweep_level
    if step(q, s, gone) then s.source, s.cursor, s.high = s.source + 1, '0', nil end
  end
  return true
end

-- When the first of those ends that are sent without a word, which nobody adds to `soonest`.
local function unsaid(q, began)
  local ttl, held = q.settings.ttl_ms, q.retention_ms or 0
  if ttl == 0 or (held > 0 and held < ttl) then ttl = held end
  return ttl > 0 and began + ttl or HF.FOREVER
end

-- Clear away what has expired, if anything may have: at least `want`, or what there is, or what can be found
-- without holding the server. How many.
function HF.sweep(q, want, limit)
  local place = redis.call('HGET', q.base, 'sweep')
  local due = place or q.soonest <= q.now
  if unsaid(q, 0) == HF.FOREVER and math.floor(q.kinds / HF.TTL) % 2 == 0 then due = false end
  if not due and q.tombs == 0 then return 0 end
  HF.fit(q, {})
  HF.fit_bodies(q)
  local gone = {}
  sweep_heads(q, gone)
  if due and #gone < want then
    local s = place and cmsgpack.unpack(place)
    if not s then
      -- From here on it is lowered by what comes to wait meanwhile.
      s, q.soonest = { source = GROUPS, cursor = '0', soonest = HF.FOREVER, back = q.back, began = q.now }, HF.FOREVER
    end
    s.looked, s.limit = 0, limit or LIMIT
    if sweep_all(q, s, gone) then
      redis.call('HDEL', q.base, 'sweep')
      q.soonest = math.min(q.soonest, s.soonest, unsaid(q, s.began))
    else
      redis.call('HSET', q.base, 'sweep', cmsgpack.pack(s))
    end
    sweep_heads(q, gone)
  end
  q.expired = q.expired + #gone
  HF.forget(q, gone)
  HF.note(q, 'expired', gone)
  HF.save(q)
  return #gone
end
