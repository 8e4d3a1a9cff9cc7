--[[ settle: settle deliveries, each in its own way, and keep what came of them, in one step.
  KEYS   queue
  ARGV   per delivery: action, delay_ms, reason, error, envelope, result tail, result, result_ttl_ms,
         receipt (batch u48 and id; batch 0: whichever delivery is current)
           ack      the message is gone
           retry    ready after delay_ms as if never received; the caller counts, max_receives does not
           snooze   ready after delay_ms; this delivery does not count
           release  ready again at the head; does not count
           bury     counts; dead at once, of `reason` and `error`
         envelope: what the message is from now on, or '' for as it is; of the same group and unique
         name. tail: where its result is kept for result_ttl_ms, or '' for none. What an action has no
         use for is not looked at.
  Reply  0-based positions of the receipts that named no current delivery; nothing is done for these
  Errors INVALID
  Cost   O(1) per message that is acked or goes to the head, else O(log delayed) or O(log dead)
  Named  yes
  Flags  allow-oom                                                                              ]]

local STEP = 9
local ACTIONS = { ack = true, retry = true, snooze = true, release = true, bury = true }

-- What is said of delivery i starts after args[(i - 1) * STEP]. Checks all of it; the receipts, and whether
-- nothing but acks is asked for.
local function parse(args)
  local receipts, acks, n = {}, true, #args / STEP
  if n < 1 or n % 1 ~= 0 then error({ err = 'INVALID give nine arguments for each delivery' }) end
  for i = 1, n do
    local at = (i - 1) * STEP
    local action = args[at + 1]
    if not ACTIONS[action] then error({ err = 'INVALID action must be ack, retry, snooze, release or bury' }) end
    if #args[at + 9] ~= 16 then error({ err = 'INVALID a receipt must have 16 bytes' }) end
    if args[at + 6] ~= '' then HF.integer(args[at + 8], 'result_ttl_ms', 1, HF.FOREVER) end
    if action ~= 'ack' then
      acks = false
      HF.integer(args[at + 2], 'delay_ms', 0, HF.FOREVER)
      HF.check_why(args[at + 3])
      HF.check_why(args[at + 4])
      if args[at + 5] ~= '' and not HF.envelope_ok(args[at + 5]) then
        error({ err = 'INVALID a message is not a valid envelope' })
      end
    end
    receipts[i] = args[at + 9]
  end
  return receipts, acks
end

local function keep_result(q, args, at)
  if args[at + 6] ~= '' then HF.keep_result(q.base, args[at + 6], args[at + 7], tonumber(args[at + 8])) end
end

-- All of a packed batch of messages that are nothing special is acked, in whichever order.
local function ack_whole(q, args, receipts)
  if q.kinds % 4 >= HF.GROUP or q.kinds >= HF.UNIQUE or HF.noting(q) then return false end
  local batch = string.sub(receipts[1], 1, 6)
  local entry = batch ~= HF.ANY and HF.entry_of(q, batch)
  if not entry or not HF.is_packed(entry) or HF.entry_size(entry) ~= #receipts then return false end
  local wanted = {}
  for _, id in ipairs(HF.ids_in(entry)) do wanted[batch .. id] = true end
  for i = 1, #receipts do
    if not wanted[receipts[i]] then return false end
    wanted[receipts[i]] = nil
  end
  for at = 0, #args - 1, STEP do keep_result(q, args, at) end
  HF.drop_whole(q, batch, #receipts)
  q.acked = q.acked + #receipts
  return true
end

-- The message as it is from now on.
local function renewed(r, envelope)
  local new = string.sub(r, 1, 12) .. envelope
  if HF.group(new) ~= HF.group(r) or HF.unique(new) ~= HF.unique(r) then
    error({ err = 'INVALID a message keeps its group and its unique name' })
  end
  return new
end

-- Where each goes; nothing is written yet. `said`: where in args what is said of each begins.
local function sort_out(q, held, args, said)
  local to = { head = {}, later = {}, times = {}, requeued = {}, dying = {}, moved = {},
    dead_ids = {}, dead_values = {}, acked = 0, done = {}, placed = {}, left = {} }
  local noting = HF.noting(q)
  for i = 1, #held do
    local at, v = said[i], held[i][2]
    local action = args[at + 1]
    if action == 'ack' then
      to.acked = to.acked + 1
      -- As in ack: most have no flags that matter.
      if noting or string.byte(v, 1) >= HF.DEAD or string.byte(v, 23) > 1 then
        local r, head = HF.unleash(v)
        to.done[#to.done + 1] = r
        if not head then to.placed[#to.placed + 1] = r end
      end
    else
      local r, head = HF.unleash(v)
      if head then
        -- A dead letter goes back to the dead whatever is said of it.
        to.dead_ids[#to.dead_ids + 1], to.dead_values[#to.dead_values + 1] = held[i][1], head .. r
      else
        if args[at + 5] ~= '' then
          if string.byte(r, 14) >= HF.REF then to.left[#to.left + 1] = r end
          r = renewed(r, args[at + 5])
        end
        if action == 'bury' then
          r = HF.with_receives(r, HF.receives(r) + 1)
          to.dying[#to.dying + 1] = { r, args[at + 3], args[at + 4] }
        else
          if action == 'retry' then r = HF.with_receives(r, 0) end
          local delay_ms = action == 'release' and 0 or tonumber(args[at + 2])
          if delay_ms > 0 then
            to.later[#to.later + 1], to.times[#to.times + 1] = HF.keep_place(r), q.now + delay_ms
          else
            to.head[#to.head + 1] = r
          end
          to.requeued[#to.requeued + 1] = { r, args[at + 4], delay_ms > 0 and q.now + delay_ms or 0 }
        end
        to.moved[#to.moved + 1] = r
      end
    end
  end
  return to
end

-- Call `act(records, first, second)` for those of `list` that agree in what is said of them, in order.
local function together(list, act)
  local from = 1
  for i = 1, #list do
    local one, next = list[i], list[i + 1]
    if not next or next[2] ~= one[2] or next[3] ~= one[3] then
      local records = {}
      for j = from, i do records[#records + 1] = list[j][1] end
      act(records, one[2], one[3])
      from = i + 1
    end
  end
end

local function settle_each(q, args, receipts)
  local held, stale = HF.held(q, receipts, 1)
  if #held == 0 then return stale end
  local said, passed = {}, 1
  for i = 1, #receipts do
    if stale[passed] == i - 1 then
      passed = passed + 1
    else
      said[#said + 1] = (i - 1) * STEP
    end
  end
  local to = sort_out(q, held, args, said)
  local back = #to.moved + #to.dead_ids
  if back + #to.placed > 0 then
    HF.fit(q, to.moved)
    HF.fit_groups(q, to.placed)
  end
  if back > 0 then
    for _, r in ipairs(to.moved) do HF.mark_kinds(q, r) end
    HF.renew_names(q, to.moved)
    HF.ready_push(q, to.head, true)
    if #to.later > 0 then HF.delay(q, to.later, to.times) end
    q.requeued = q.requeued + #to.requeued
    together(to.requeued, function(records, err, at) HF.note(q, 'requeued', records, at, err) end)
    together(to.dying, function(records, reason, err) HF.bury(q, records, reason, err) end)
    HF.rebury(q, to.dead_ids, to.dead_values)
  end
  for i = 1, #said do keep_result(q, args, said[i]) end
  HF.release(q, held)
  HF.forget(q, to.done)
  if #to.left > 0 then HF.let_go(q, to.left) end
  HF.groups_settle(q, to.placed)
  if back + #to.placed > 0 then HF.rearm(q, HF.ready_any(q), false) end
  q.acked = q.acked + to.acked
  HF.note(q, 'acked', to.done)
  HF.save(q)
  return stale
end

function T.settle(keys, args, q)
  local receipts, acks = parse(args)
  q = q or HF.open(keys[1])
  HF.fit_bodies(q)
  if acks and ack_whole(q, args, receipts) then
    HF.save(q)
    return {}
  end
  return settle_each(q, args, receipts)
end
