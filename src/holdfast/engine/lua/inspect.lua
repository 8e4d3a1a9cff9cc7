--[[ inspect: look at messages of one state; nothing changes.
  KEYS   queue
  ARGV   state (ready | delayed | leased | reserved | dead), start, count, group ('' or, for ready, one group),
         cursor (0, or where an earlier call left off: start counts messages from there)
  Reply  now; entries in that state; start and cursor to go on with (cursor -1: no more);
         then per message:
           ready    message
           delayed  message, due
           leased   value of `leased`, delivered at, lease end (0: none)
           reserved message, reserved at
           dead     dead head and message
  Errors INVALID
  Cost   O(log n + count); leased looks at up to 1,000 batches a call
  Flags  no-writes                                                                              ]]

-- Entries read in one call at most.
local LOOK = 10000

local function by_rank(q, order, values, start, count, with_score)
  local total = redis.call('ZCARD', q.base .. K[order])
  if start < 0 then start = math.max(total + start, 0) end
  local reply = { q.now, total, start + count, start + count < total and 0 or -1 }
  local found = redis.call('ZRANGE', q.base .. K[order], start, start + count - 1, 'WITHSCORES')
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  if #ids == 0 then return reply end
  for i, v in ipairs(HF.hmget(q.base .. K[values], ids)) do
    reply[#reply + 1] = v
    if with_score then reply[#reply + 1] = tonumber(found[2 * i]) end
  end
  return reply
end

-- Positions count messages; tokens and tombstones stand for none of their own. Where there are none
-- of these, a position is where it says; else the lists are read from `cursor` on, counting.
local function ready(q, start, count, group, cursor)
  local keys, total = {}, 0
  if group ~= '' then
    keys[1] = q.base .. K.group .. group
  else
    for i, level in ipairs(HF.ready_levels(q, true)) do keys[i] = q.base .. K.ready .. level end
    total = -q.tokens - q.tombs
  end
  local sizes = {}
  for i, key in ipairs(keys) do
    sizes[i] = redis.call('LLEN', key)
    total = total + sizes[i]
  end
  if start < 0 then start = math.max(total + start, 0) end
  local at, skip, got, looked = cursor, start, 0, 0
  if group ~= '' or q.tokens + q.tombs == 0 then at, skip = cursor + start, 0 end
  local reply, passed = { q.now, total, 0, -1 }, 0
  for i, key in ipairs(keys) do
    while at < passed + sizes[i] do
      if got >= count or looked >= LOOK then
        reply[3], reply[4] = skip, at
        return reply
      end
      local want = math.min(skip + count - got, LOOK)
      local entries = redis.call('LRANGE', key, at - passed, at - passed + want - 1)
      for _, entry in ipairs(entries) do
        if string.byte(entry, 1) < HF.TOMB then
          if skip > 0 then
            skip = skip - 1
          else
            got = got + 1
            reply[#reply + 1] = entry
          end
        end
      end
      at, looked = at + #entries, looked + #entries
    end
    passed = passed + sizes[i]
  end
  return reply
end

local function leased(q, start, count, cursor)
  local reply, skip, got, looked = { q.now, q.leased, 0, -1 }, start, 0, 0
  local entries = redis.call('ZRANGE', q.base .. K.batches, cursor, cursor + 999, 'WITHSCORES')
  for e = 1, #entries, 2 do
    local entry, batch = entries[e], struct.pack('>I6', tonumber(entries[e + 1]))
    local left = HF.entry_size(entry) - tonumber(redis.call('HGET', q.base .. K.settled, batch) or 0)
    if skip >= left then
      skip = skip - left
    elseif looked >= LOOK then
      reply[3], reply[4] = skip, cursor + (e - 1) / 2
      return reply
    else
      looked = looked + HF.entry_size(entry)
      local passed, ids, values = 0, HF.values_of(q, entry, batch)
      local delivered, ends = HF.entry_time(entry), redis.call('ZSCORE', q.base .. K.deadlines, batch)
      for i, v in ipairs(values) do
        if v and string.sub(v, 2, 7) == batch and got < count then
          passed = passed + 1
          if skip > 0 then
            skip = skip - 1
          else
            local own = string.byte(v, 1) % 2 == HF.OWN
            local till = tonumber((own and redis.call('ZSCORE', q.base .. K.deadlines, ids[i]) or ends) or 0)
            got = got + 1
            reply[#reply + 1] = v
            reply[#reply + 1] = delivered
            reply[#reply + 1] = till < HF.FOREVER and till or 0
          end
        end
      end
      if got >= count then
        reply[3], reply[4] = passed, cursor + (e - 1) / 2
        return reply
      end
    end
  end
  if #entries == 2000 then reply[3], reply[4] = skip, cursor + 1000 end
  return reply
end

-- The cursor counts reservations.
local function reserved(q, start, count, cursor)
  local reply, skip, got, names, times = { q.now, q.reserved, 0, -1 }, start, 0, {}, {}
  local all = redis.call('HGETALL', q.base .. K.reservations)
  for i = 1, #all, 2 do
    if string.find(all[i], '/', 1, true) then
      names[#names + 1], times[all[i]] = all[i], struct.unpack('>I6', all[i + 1], 8)
    end
  end
  table.sort(names, function(a, b)
    if times[a] ~= times[b] then return times[a] < times[b] end
    return a < b
  end)
  for e = cursor + 1, #names do
    local key = q.base .. K.reserved .. names[e]
    local size = redis.call('LLEN', key)
    if skip >= size then
      skip = skip - size
    else
      for _, r in ipairs(redis.call('LRANGE', key, skip, skip + count - got - 1)) do
        got, skip = got + 1, skip + 1
        reply[#reply + 1], reply[#reply + 2] = r, times[names[e]]
      end
      if got >= count then
        reply[3], reply[4] = skip, e - 1
        return reply
      end
      skip = 0
    end
  end
  return reply
end

function T.inspect(keys, args)
  local start = HF.integer(args[2], 'start', -HF.FOREVER, HF.FOREVER)
  local count = HF.integer(args[3], 'count', 1, 10000)
  local q = HF.open(keys[1])
  if args[1] == 'ready' then
    local cursor = HF.integer(args[5] or '0', 'cursor', 0, HF.FOREVER)
    return HF.fill(q, ready(q, start, count, args[4], cursor), HF.in_record, 5)
  elseif args[1] == 'delayed' then
    return HF.fill(q, by_rank(q, 'due', 'delayed', start, count, true), HF.in_record, 5, 2)
  elseif args[1] == 'dead' then
    return HF.fill(q, by_rank(q, 'died', 'dead', start, count, false), HF.in_dead, 5)
  elseif args[1] == 'leased' then
    local cursor = HF.integer(args[5] or '0', 'cursor', 0, HF.FOREVER)
    return HF.fill(q, leased(q, math.max(start, 0), count, cursor), HF.in_leased, 5, 3)
  end
  if args[1] == 'reserved' then
    local cursor = HF.integer(args[5] or '0', 'cursor', 0, HF.FOREVER)
    return HF.fill(q, reserved(q, math.max(start, 0), count, cursor), HF.in_record, 5, 2)
  end
  error({ err = 'INVALID state must be ready, delayed, leased, reserved or dead' })
end
