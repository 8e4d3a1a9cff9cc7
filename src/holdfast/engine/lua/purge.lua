--[[ purge: take away all messages of one state, a bounded piece per call.
  KEYS   queue
  ARGV   state (ready | delayed | leased | reserved | dead)
  Reply  how many went, 1 if the caller must call again
  Errors INVALID
  Cost   O(1,000) per call; O(1) for all, but leased ones, where no message has a group, a unique
         name or a listener
  Named  yes
  Flags  allow-oom                                                                              ]]

-- Messages that go in one call, about; of how many batches; and places in these that are looked at at most.
local STEP, PAGE, LOOK = 1000, 1000, 10000

local function gone(q, records, placed)
  q.removed = q.removed + #records
  HF.forget(q, records)
  if placed then HF.groups_settle(q, records) end
  HF.note(q, 'removed', records)
  return #records
end

local function at_once(q, count, ...)
  local keys = {}
  for i, name in ipairs({ ... }) do keys[i] = q.base .. name end
  redis.call('UNLINK', unpack(keys))
  q.removed = q.removed + count
  return count, 0
end

local purge = {}

function purge.ready(q, simple)
  if simple then
    local count, lists = HF.ready_count(q), {}
    for level = 0, 9 do lists[level + 1] = K.ready .. level end
    q.levels, q.tombs = 0, 0
    return at_once(q, count, unpack(lists))
  end
  local n = 0
  if HF.ready_any(q) then
    -- With a token go all that wait behind it, and its place.
    local pick = HF.ready_pick_oldest(q, STEP, true)
    HF.ready_drop(q, pick)
    for group, places in pairs(pick.held) do
      for _ = 1, places do HF.group_settle(q, group) end
    end
    n = gone(q, pick.records, false)
  elseif q.grouped > 0 then
    -- What waits behind those that are in flight.
    n = gone(q, HF.groups_take(q, STEP), false)
  end
  return n, (q.grouped > 0 or HF.ready_any(q)) and 1 or 0
end

function purge.delayed(q, simple)
  if simple then return at_once(q, redis.call('ZCARD', q.base .. K.due), K.due, K.delayed) end
  local ids = redis.call('ZRANGE', q.base .. K.due, 0, STEP - 1)
  if #ids == 0 then return 0, 0 end
  local fresh, placed = {}, {}
  for _, r in ipairs(HF.hmget(q.base .. K.delayed, ids)) do
    local list = HF.keeps_place(r) and placed or fresh
    list[#list + 1] = r
  end
  HF.each('HDEL', q.base .. K.delayed, ids, 1, #ids)
  HF.each('ZREM', q.base .. K.due, ids, 1, #ids)
  return gone(q, fresh, false) + gone(q, placed, true), redis.call('EXISTS', q.base .. K.due)
end

function purge.leased(q)
  local held, records, dead, looked = {}, {}, {}, 0
  local entries = redis.call('ZRANGE', q.base .. K.batches, 0, PAGE - 1, 'WITHSCORES')
  for e = 1, #entries, 2 do
    if #held >= STEP or looked >= LOOK then break end
    local batch, ids = struct.pack('>I6', tonumber(entries[e + 1])), HF.ids_in(entries[e])
    looked = looked + #ids
    HF.loosen(q, batch)
    for i, v in ipairs(HF.leased_get(q, ids)) do
      if v and string.sub(v, 2, 7) == batch then
        held[#held + 1] = { ids[i], v }
        local r, head = HF.unleash(v)
        local list = head and dead or records
        list[#list + 1] = r
      end
    end
  end
  HF.release(q, held)
  return gone(q, dead, false) + gone(q, records, true), redis.call('EXISTS', q.base .. K.batches)
end

function purge.reserved(q)
  local r = HF.any_reservation(q)
  if not r then return 0, 0 end
  local n = HF.purge_reserved(q, r)
  return n, 1
end

function purge.dead(q)
  if not HF.noting(q) and q.kinds < HF.REF then return at_once(q, redis.call('ZCARD', q.base .. K.died), K.died, K.dead) end
  local ids, values = HF.dead_get(q, redis.call('ZRANGE', q.base .. K.died, 0, STEP - 1))
  HF.dead_drop(q, ids)
  return gone(q, HF.dead_records(values), false), redis.call('EXISTS', q.base .. K.died)
end

function T.purge(keys, args)
  local step = purge[args[1]]
  if not step then error({ err = 'INVALID state must be ready, delayed, leased, reserved or dead' }) end
  local q = HF.open(keys[1])
  HF.fit_bodies(q)
  local simple = redis.call('EXISTS', q.base .. K.slots, q.base .. K.unique) == 0 and not HF.noting(q)
    and q.kinds < HF.REF
  local count, more = step(q, simple)
  if q.exists then HF.save(q) end
  return { count, more }
end
