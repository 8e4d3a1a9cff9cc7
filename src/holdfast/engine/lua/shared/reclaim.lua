--[[ Leases that have ended: their messages come back, to the head, in the order in which they were sent.

  A call takes a piece, and each piece goes before all that came back so far. So the last ones come first, and
  nothing is handed out until all are back: HF.catch_up says whether some are left.

  Which are the last is told from the ended entries of `deadlines`, latest first, up to WINDOW of them: batches by
  the ids they reach from and to, and only where these overlap each message by its own. What has come back of a
  batch of which a part is left is blotted out in its entry (an id of zeros), so that nobody looks for it again.

  Rejected: to note in each message where it was in its list, which every send would pay for.    ]]

local LIMIT, WINDOW, STEP = 1000, 20000, 500
local BLANK = '\0\0\0\0\0\0\0\0\0\0'

-- A number that grows as ids do: exact for a million ids a millisecond and a hundred days.
local function rank_at(q, ms, seq) return (ms - q.ms) * 2 ^ 20 + seq end

local function rank_of(q, id)
  local ms, seq = struct.unpack('>I6I4', id)
  return rank_at(q, ms, seq)
end

-- Put `item` into lists by rank; `ranks` has each rank once.
local function file(ranks, by_rank, rank, item)
  local list = by_rank[rank]
  if list then
    list[#list + 1] = item
  else
    ranks[#ranks + 1], by_rank[rank] = rank, { item }
  end
end

-- What an ended entry of `deadlines` stands for: how many messages, from which rank to which, and how many
-- places were looked at to tell.
local function measure(q, member)
  if #member == 10 then
    local rank = rank_of(q, member)
    return { member = member, single = true, size = 1, low = rank, high = rank, looked = 1 }
  end
  local entry = HF.entry_of(q, member) or ''
  local packed = entry ~= '' and HF.is_packed(entry)
  local form, step = packed and '>I6I4I2' or '>I6I4', packed and 12 or 10
  local size, looked, low, high = 0, 1, math.huge, -math.huge
  for at = 7, #entry, step do
    local ms, seq, count = struct.unpack(form, entry, at)
    if not packed then count = 1 end
    looked = looked + 1
    if ms > 0 then
      local rank = rank_at(q, ms, seq)
      size, low, high = size + count, math.min(low, rank), math.max(high, rank + count - 1)
    end
  end
  return { member = member, entry = entry, size = size, low = low, high = high, looked = looked }
end

-- The entries among which the last messages are, and those that stand for nothing.
local function last_entries(q)
  local ended = redis.call('ZREVRANGEBYSCORE', q.base .. K.deadlines, q.now, '-inf', 'LIMIT', 0, WINDOW)
  local highs, by_high, empty, looked = {}, {}, {}, 0
  for _, member in ipairs(ended) do
    if looked >= WINDOW then break end
    local of = measure(q, member)
    looked = looked + of.looked
    if of.size == 0 then empty[#empty + 1] = member else file(highs, by_high, of.high, of) end
  end
  table.sort(highs)
  local chosen, total, low = {}, 0, nil
  for i = #highs, 1, -1 do
    if total >= WINDOW or (total >= LIMIT and highs[i] < low) then break end
    for _, of in ipairs(by_high[highs[i]]) do
      chosen[#chosen + 1], total, low = of, total + of.size, math.min(low or of.low, of.low)
    end
  end
  return chosen, empty
end

-- The messages of these entries that are to come back, last one first, up to LIMIT: {id, value} each. Each entry
-- learns how many of its messages were not looked at, and which are in it no longer.
local function last_messages(q, entries)
  local ranks, by_rank, found = {}, {}, {}
  for _, of in ipairs(entries) do
    of.left, of.gone = of.size, {}
    for _, id in ipairs(of.single and { of.member } or HF.ids_in(of.entry)) do
      if id ~= BLANK then file(ranks, by_rank, rank_of(q, id), { id, of }) end
    end
  end
  table.sort(ranks)
  local at = #ranks
  while at > 0 and #found < LIMIT do
    local ids, ofs, want = {}, {}, math.min(STEP, LIMIT - #found)
    while at > 0 and #ids < want do
      for _, each in ipairs(by_rank[ranks[at]]) do
        local of = each[2]
        ids[#ids + 1], ofs[#ofs + 1] = each[1], of
        if of.entry and not of.loose then
          HF.loosen(q, of.member)
          of.loose = true
        end
      end
      at = at - 1
    end
    for i, v in ipairs(HF.leased_get(q, ids)) do
      local of = ofs[i]
      local own = v and string.byte(v, 1) % 2 == HF.OWN
      local here = v and (of.single or string.sub(v, 2, 7) == of.member)
      of.left = of.left - 1
      if here and own == (of.single or false) then found[#found + 1] = { ids[i], v } end
      -- One with a deadline of its own stays in its batch.
      if not (here and own) then of.gone[ids[i]] = true end
    end
  end
  return found
end

-- Blot out of a batch's entry what is in it no longer.
local function blot(q, of)
  local entry, number = HF.entry_of(q, of.member), struct.unpack('>I6', of.member)
  if not entry then return end
  local ids = HF.ids_in(entry)
  for i, id in ipairs(ids) do if of.gone[id] then ids[i] = BLANK end end
  redis.call('ZREMRANGEBYSCORE', q.base .. K.batches, number, number)
  redis.call('ZADD', q.base .. K.batches, number, string.sub(entry, 1, 6) .. table.concat(ids))
end

function HF.reclaim(q)
  local entries, done = last_entries(q)
  if #entries + #done == 0 then return end
  local held = last_messages(q, entries)
  local records, ids, dead = {}, {}, {}
  for i = #held, 1, -1 do
    local r, head = HF.unleash(held[i][2])
    if head then
      ids[#ids + 1], dead[#dead + 1] = held[i][1], head .. r
    else
      records[#records + 1] = r
    end
  end
  HF.fit(q, records)
  HF.fail(q, records, 0, 'the lease ended without an ack')
  HF.rebury(q, ids, dead)
  HF.release(q, held)
  for _, of in ipairs(entries) do
    if of.left == 0 then
      done[#done + 1] = of.member
    elseif next(of.gone) then
      blot(q, of)
    end
  end
  HF.each('ZREM', q.base .. K.deadlines, done, 1, #done)
end
