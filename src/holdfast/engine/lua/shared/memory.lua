--[[ The memory of calls: one whose answer was lost is not carried out twice.

  A call is named by its sender and a number. A sender has one call under way at a time, and its numbers grow. What
  was answered is kept for a minute:

    last_send  a key for each sender: number and answer
    last       in the queue's own hash, which is written anyway: the last single send, as answer, sender, zero,
               number; so that a lone sender has no key to write
    last_one   a key for each sender, to which `last` moves when another one sends
    done       in the hash too: the last call that settled all it was asked to, as sender, zero, number; moves
               to last_send when another one settles, unless its sender has sent something since

  A repetition (again = 1) looks there before it does anything. Its original may still be on its way, and arrive
  after it: so a repetition that was carried out leaves `late` in the state, and for a minute every named call
  looks. Who finds its own number gets that answer; who finds a higher one is refused, since its sender has long
  had an answer. Otherwise nobody looks: a name costs one write.                                ]]

-- Text, for an argument that is a number is printed as one each time.
local KEEP_ANSWER, KEEP_ANSWER_MS = '60000', 60000
local ANSWER = 13

local function as_number(call) return tonumber(call) or 0 end

-- Whose single send `last` tells of, and which.
local function name_of(last) return string.match(last, '^(.*)%z(.*)$', ANSWER + 1) end

-- Whose call `done` tells of, and which.
local function done_by(done) return string.match(done, '^(.*)%z(.*)$') end

-- The calls of a sender that are known, as pairs of number and answer: its last one, and perhaps some before.
local function known_calls(base, sender)
  local calls = {}
  local kept = redis.call('GET', base .. K.last_send .. sender)
  if kept then calls[1] = cmsgpack.unpack(kept) end
  local its, number = done_by(redis.call('HGET', base, 'done') or '')
  if its == sender then calls[#calls + 1] = { number, {} } end
  for _, last in ipairs({ redis.call('HGET', base, 'last') or '', redis.call('GET', base .. K.last_one .. sender) or '' }) do
    local its, number = name_of(last)
    if its == sender then calls[#calls + 1] = { number, string.sub(last, 1, ANSWER) } end
  end
  return calls
end

-- True and the answer, if this call was carried out already. An answer of 13 bytes is that of a single send.
local function recall(base, sender, call)
  local later
  for _, known in ipairs(known_calls(base, sender)) do
    if known[1] == call then return true, known[2] end
    if as_number(known[1]) > as_number(call) then later = known[1] end
  end
  if later then
    error({ err = string.format('ANSWERLOST call %s of %s came after its call %s: whether it was carried out is not known any more', call, sender, later) })
  end
  return false
end

-- The same, for who need not look if nothing was repeated lately.
function HF.known(q, sender, call, again)
  if sender == '' or (again ~= '1' and q.late <= q.now) then return false end
  local found, answer = recall(q.base, sender, call)
  if not found and again == '1' then
    q.late = q.now + KEEP_ANSWER_MS
    if q.exists then HF.save(q, true) end
  end
  return found, answer
end

function HF.remember(base, sender, call, reply)
  if sender == '' then return end
  redis.call('SET', base .. K.last_send .. sender, cmsgpack.pack({ call, reply }), 'PX', KEEP_ANSWER)
end

-- What to write into the hash for a single send that was answered so.
function HF.last_of(sender, call, reply) return reply .. sender .. '\0' .. call end

-- Make room in the hash: `sender` is going to write there ('': nobody, the hash goes).
function HF.move_last(base, last, sender, now)
  if last == '' then return end
  if string.find(last, sender, ANSWER + 1, true) == ANSWER + 1 and string.byte(last, ANSWER + 1 + #sender) == 0 then return end
  if struct.unpack('>I6', last) + KEEP_ANSWER_MS < now then return end
  redis.call('SET', base .. K.last_one .. name_of(last), last, 'PX', KEEP_ANSWER)
end

-- Make room in the hash, as for single sends.
function HF.move_done(base, done, sender)
  if not done or (string.byte(done, #sender + 1) == 0 and string.find(done, sender, 1, true) == 1) then return end
  local its, number = done_by(done)
  local kept = redis.call('GET', base .. K.last_send .. its)
  -- Of two calls of one sender only the later one can still be asked for.
  if kept and as_number(cmsgpack.unpack(kept)[1]) > as_number(number) then return end
  HF.remember(base, its, number, {})
end

-- By verb: a short way for what is common, given the queue's key, the arguments and the name. Nil, and nothing done:
-- this is not that case.
HF.SHORT = {}

-- A transition under a name, which comes after its arguments: sender, call, again. It gets the queue as a third
-- argument, opened, and may use that; then all it saves of it is saved here, together with its name.
function HF.by_name(verb, keys, args)
  local n = #args
  if n < 3 then error({ err = 'INVALID give sender, call and again behind the arguments' }) end
  local sender, call, again = args[n - 2], args[n - 1], args[n]
  local short = again ~= '1' and sender ~= '' and HF.SHORT[verb]
  local done = short and short(keys[1], args, sender, call)
  if done then return done end
  args[n - 2], args[n - 1], args[n] = nil, nil, nil
  local q = HF.open(keys[1], nil, true)
  local found, reply = HF.known(q, sender, call, again)
  if found then return reply end
  reply = T[verb](keys, args, q)
  if q.unsaved and sender ~= '' and type(reply) == 'table' and #reply == 0 then
    HF.move_done(q.base, q.done, sender)
    HF.save_done(q, sender .. '\0' .. call)
  else
    if q.unsaved then HF.save(q, true) end
    HF.remember(q.base, sender, call, reply)
  end
  return reply
end
