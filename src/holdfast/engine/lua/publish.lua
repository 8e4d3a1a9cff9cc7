--[[ publish: store messages for every subscription of a topic, or for none; without any, the topic
  itself holds them for the first to come.
  KEYS   topic
  ARGV   as send; a message has no unique name
  Reply  as send
  Errors INVALID, FULL, ANSWERLOST
  Cost   O(messages · subscriptions); an envelope is stored once
  Flags  deny-oom                                                                               ]]

-- The seats that get new messages. A broadcast peer that has been silent for too long does not, unless its
-- consumer would be left without any.
local function takers_of(t)
  local list, of, several, tails = {}, {}, {}, {}
  for _, seat in ipairs(HF.seats(t.base)) do
    if seat.state == HF.ACTIVE or seat.state == HF.RETURNING then
      list[#list + 1] = seat
      of[seat.consumer] = (of[seat.consumer] or 0) + 1
    end
  end
  for _, seat in ipairs(list) do
    if of[seat.consumer] > 1 then several[#several + 1], tails[#tails + 1] = seat, seat.tail end
  end
  local awake, seen = {}, HF.seen_at(t.base, tails)
  for i, seat in ipairs(several) do
    seat.away = t.now - (seen[i] or seat.since) > t.settings.peer_timeout_ms
    if not seat.away then awake[seat.consumer] = true end
  end
  local chosen = {}
  for _, seat in ipairs(list) do
    if not seat.away or not awake[seat.consumer] then chosen[#chosen + 1] = seat end
  end
  return chosen
end

-- Which seat takes which messages: for each seat, a list of positions in `fresh`; and how many take each.
local function distribute(seats, fresh)
  local all, counts, shares, attributes = {}, {}, {}, {}
  for i = 1, #fresh do all[i], counts[i] = i, 0 end
  for s, seat in ipairs(seats) do
    local mine = all
    if seat.filter ~= '' then
      mine = {}
      for i, m in ipairs(fresh) do
        attributes[i] = attributes[i] or HF.attributes(m.record)
        if HF.matches(seat.filter, attributes[i]) then mine[#mine + 1] = i end
      end
    end
    for _, i in ipairs(mine) do counts[i] = counts[i] + 1 end
    shares[s] = mine
  end
  return shares, counts, all
end

-- Can this seat take these? Everything is checked before anything is written.
local function fit(q, items)
  local levels, plain = {}, not HF.noting(q) and q.settings.max_length == 0
  for _, m in ipairs(items) do
    local level, flags = string.byte(m.record, 13, 14)
    levels[level] = true
    plain = plain and flags % 16 < HF.GROUP and m.at <= q.now
  end
  if not plain then
    local records = {}
    for i, m in ipairs(items) do records[i] = m.record end
    return HF.fit(q, records)
  end
  for level in pairs(levels) do HF.fit_key(q.base .. K.ready .. level, 'list') end
  HF.fit_wake(q)
end

local function publish(t, args)
  local list = HF.parse_messages(t, args)
  for _, m in ipairs(list) do
    if m.unique then error({ err = 'INVALID a published message has no unique name' }) end
  end
  local new = HF.name_messages(t, list)
  local fresh, seats = new.fresh, takers_of(t)
  local shares, counts, all = distribute(seats, fresh)

  local items, fields, numbers = {}, {}, {}
  for i, m in ipairs(fresh) do
    items[i] = m
    if counts[i] > 1 then
      local id = string.sub(m.record, 1, 10)
      fields[#fields + 1], fields[#fields + 2] = id, m.envelope
      numbers[#numbers + 1], numbers[#numbers + 2] = id, counts[i]
      items[i] = { record = HF.reference(m.record), at = m.at }
    end
  end

  local queues, over = {}, {}
  for s, seat in ipairs(seats) do
    local q, mine = HF.open(t.base .. seat.tail, t.now), items
    if shares[s] ~= all then
      mine = {}
      for j, i in ipairs(shares[s]) do mine[j] = items[i] end
    end
    if #mine > 0 then
      over[#over + 1] = HF.over_length(q, #mine)
      fit(q, mine)
      queues[#queues + 1] = { q, mine }
    end
  end
  local held = #seats == 0 and HF.over_length(t, #fresh) or 0
  HF.fit(t, {})
  HF.fit_key(t.base .. K.bodies, 'hash')
  HF.fit_key(t.base .. K.takers, 'hash')

  if #fresh > 0 then t.ms, t.seq = new.ms, new.last end
  if #seats == 0 then
    HF.make_room(t, held)
    for _, m in ipairs(fresh) do HF.mark_kinds(t, m.record) end
    HF.store(t, fresh)
  else
    HF.save(t)
    for i = 1, #fresh do if counts[i] == 0 then t.dropped = t.dropped + 1 end end
    if #fields > 0 then HF.keep_bodies(t.base, fields, numbers) end
    for i, each in ipairs(queues) do
      local q, mine = each[1], each[2]
      HF.make_room(q, over[i])
      q.ms, q.seq = new.ms, new.last
      for _, m in ipairs(mine) do HF.mark_kinds(q, m.record) end
      HF.store(q, mine)
      HF.save(q)
    end
    t.sent = t.sent + #fresh
    local records = {}
    for i, m in ipairs(fresh) do records[i] = m.record end
    HF.note(t, 'sent', records)
  end
  HF.dedup_keep(t, new.dedups)
  t.duplicates = t.duplicates + #new.duplicates / 2
  local reply = { new.ms, new.first, 0, 1 }
  for i = 1, #new.duplicates do reply[i + 4] = new.duplicates[i] end
  return reply
end

function T.publish(keys, args)
  if #args < 5 then error({ err = 'INVALID give at least one message' }) end
  local t = HF.open_topic(keys[1])
  local found, reply = HF.known(t, args[1], args[2], args[3])
  if found then return reply end
  HF.catch_up(t)
  local first = t.sent == 0
  reply = publish(t, args)
  if first then reply[3] = reply[3] + 2 end
  HF.save(t)
  HF.remember(keys[1], args[1], args[2], reply)
  return reply
end
