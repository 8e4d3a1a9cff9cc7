--[[ send_once: send or publish, and write down in a ledger which rows it was, in one step; so that who
  repeats its work after a failure can tell what is done already.
  KEYS   queue or topic
  ARGV   verb (send | publish), run, part, generation, known, keep_ms, digests, form, then the messages,
         as for send. `known`: how many entries the caller has taken into account; the messages are
         stored only if there are no others. `digests`: one entry for the ledger, in whichever form
         its writer likes; the engine does not look into it.
  Reply  as send; or the number of entries alone, if it is not `known`: nothing was done
  Errors INVALID, also for a generation that is over; FULL, RESHARDED
  Cost   as send
  Flags  deny-oom

  A ledger is a list: its generation, then an entry per call. Each part of a run has its own; the run has
  one without entries, for the generation that it has come to. A later generation starts anew: its writer
  says by that that the one before is over and will never be repeated. All of it is gone
  `keep_ms` after the last entry.                                                                ]]

local VERBS = { send = true, publish = true }

local function generation_of(ledger) return tonumber(redis.call('LINDEX', ledger, 0) or -1) end

local function start(ledger, generation)
  redis.call('UNLINK', ledger)
  redis.call('RPUSH', ledger, generation)
end

function T.send_once(keys, args)
  if not VERBS[args[1]] then error({ err = 'INVALID verb must be send or publish' }) end
  if #args < 9 then error({ err = 'INVALID give at least one message' }) end
  local generation = HF.integer(args[4], 'generation', 0, HF.FOREVER)
  local known = HF.integer(args[5], 'known', 0, HF.FOREVER)
  local keep_ms = HF.integer(args[6], 'keep_ms', 1, HF.FOREVER)
  local run = keys[1] .. K.ledger .. args[2]
  local part = run .. '/' .. args[3]
  local reached, at = generation_of(run), generation_of(part)
  if reached > generation then
    error({ err = string.format('INVALID batch %.0f is over: %s has come to batch %.0f', generation, args[2], reached) })
  end
  local entries = at == generation and redis.call('LLEN', part) - 1 or 0
  if entries ~= known then return { entries } end

  local messages = { '', 0, 0 }
  for i = 8, #args do messages[i - 4] = args[i] end
  local reply = T[args[1]](keys, messages)
  -- After the messages: an error in between makes a duplicate, never a loss.
  if reached < generation then start(run, args[4]) end
  if at < generation then start(part, args[4]) end
  redis.call('RPUSH', part, args[7])
  redis.call('PEXPIRE', run, keep_ms)
  redis.call('PEXPIRE', part, keep_ms)
  return reply
end
