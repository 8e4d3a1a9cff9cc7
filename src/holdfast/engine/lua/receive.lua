--[[ receive: lease up to `count` ready messages to one consumer.
  KEYS   queue
  ARGV   count, lease_ms (0: until settled; -1: the queue's; -2: that if set), wait_ms (how long the caller goes on
         waiting if there is nothing; 0: not at all)
  Reply  the messages, then: first batch, lease end (0: none), 1 if more is ready (told only
         where nothing came, somebody waits or there are shards; where nothing came, the caller must call
         again at once: messages are on their way back, a piece per call, or much had expired), ms until
         something falls due (-1: nothing will), how many shards the queue has
  Errors INVALID
  Cost   O(count), and O(log leased) per batch of 1,000
  Flags  allow-oom                                                                              ]]

-- The common case, made cheap: one priority in use, and nothing in the queue but whole
-- messages that cannot expire. Nil if it is not that case.
local function take_plain(q, count, lease_ms)
  local level = HF.only_level(q)
  if not level or count > HF.BATCH or HF.noting(q) or not HF.ready_is_plain(q) then return nil end
  local key = q.base .. K.ready .. level
  local records = redis.call('LRANGE', key, 0, count - 1)
  local n = #records
  -- Whether a full handful was all matters only to one that may take the list as it is.
  local all = n < count or (n >= HF.PACK_FROM and redis.call('LLEN', key) == n)
  if all then q.levels = 0 end
  if n == 0 then return records, 0, 0 end
  HF.fit_wake(q)
  -- A list of which everything is taken becomes the batch's own, and nothing has to be moved.
  local whole = all and n >= HF.PACK_FROM and key or nil
  local first, deadline = HF.lease(q, records, lease_ms, nil, false, whole)
  if not whole then redis.call('LTRIM', key, n, -1) end
  q.received = q.received + n
  return records, first, deadline
end

local function take(q, count, lease_ms)
  local pick, first, deadline = HF.ready_pick(q, count), 0, 0
  HF.fit_wake(q)
  if #pick.idle + #pick.unfinished + #pick.expired > 0 or HF.noting(q) then HF.fit(q, {}) end
  if pick.n > 0 then
    first, deadline = HF.lease(q, pick.records, lease_ms)
    q.received = q.received + pick.n
  end
  HF.ready_drop(q, pick)
  HF.note(q, 'received', pick.records, deadline, nil, lease_ms)
  return pick.records, first, deadline
end

function T.receive(keys, args)
  local count = HF.integer(args[1], 'count', 1, 100000)
  local lease_ms = HF.integer(args[2], 'lease_ms', -2, HF.FOREVER)
  local wait_ms = HF.integer(args[3], 'wait_ms', 0, HF.FOREVER)
  local q = HF.open(keys[1])
  HF.fit_bodies(q)
  lease_ms = HF.lease_for(q, lease_ms)
  local changed, behind = HF.catch_up(q)

  local reply, first, deadline, more = {}, 0, 0, false
  if q.paused_until > q.now then
    more = false
  elseif behind then
    more = true
  elseif q.levels > 0 then
    reply, first, deadline = take_plain(q, count, lease_ms)
    if not reply then reply, first, deadline = take(q, count, lease_ms) end
    -- Whether there is more matters to those who wait, who found nothing, or choose between shards.
    more = (#reply == 0 or q.waiting > q.now or q.settings.shards > 1) and HF.ready_any(q)
    changed = true
  end

  local n = #reply
  if n > 0 and q.kinds >= HF.REF then HF.fill(q, reply, HF.in_record) end
  if n == 0 and wait_ms > 0 then
    q.waiting, changed = math.max(q.waiting, q.now + wait_ms + 1000), true
  end
  HF.rearm(q, more, n == 0 and wait_ms == 0)
  if changed then HF.save(q) end
  reply[n + 1], reply[n + 2], reply[n + 3] = first, deadline, more and 1 or 0
  reply[n + 4], reply[n + 5] = HF.next_in(q), q.settings.shards
  return reply
end
