--[[ permit: may so many go on? Limits that all who know their name share, by the server's clock.
  KEYS   limit
  ARGV   rate, limit, per_ms, want (less than 0: so many that were granted were of no use)
         concurrency, limit, hold_ms, holders
  Reply  how many may, ms until it is worth asking for one more (0: at once); concurrency: then the
         0-based positions of the holders that may not
  Errors INVALID
  Cost   rate: O(1); concurrency: O(holders · log permits)
  Flags  allow-oom

  rate: a bucket of `limit` that fills at `limit` per `per_ms`. So up to `limit` go at once after a pause,
  and over any time t no more than limit · (1 + t / per_ms). One number tells it all: when the bucket
  is full again (GCRA). A bucket never lacks more than `limit`, so a clock that was set back heals.
  Rejected: a window that counts from its start, which lets twice the limit pass at once around its end.
  What is given back late was kept from others in vain, and fills the bucket as if it had been used then
  and there: a little more than the rate may pass, by what that time is worth.

  concurrency: who holds a place keeps it, and holds it from now for hold_ms more, also if the limit was
  lowered meanwhile; so the same call is the heartbeat. Others get what is free, in the order given. A
  holder that is not heard of loses its place, and is refused if it comes back and there is none.

  Both keys end by themselves when they say nothing any more.                                   ]]

local permit = {}

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

function permit.rate(base, limit, per_ms, args)
  local want = HF.integer(args[4], 'want', -100000, 100000)
  if want == 0 or #args > 4 then error({ err = 'INVALID rate takes limit, per_ms and want' }) end
  local key, now, per = base .. K.rate, now_us(), per_ms * 1000
  local each = per / limit
  local kept = tonumber(redis.call('GET', key) or 0)
  local full = math.min(math.max(kept, now), now + per)
  local lacks_too_much = kept > full
  -- A little more than there is: a third of a second, three times, must be a whole one.
  local granted = math.max(math.min(want, math.floor((now + per - full) / each + 0.001)), 0)
  full = math.max(full + (want < 0 and want or granted) * each, now)
  if granted > 0 or want < 0 or lacks_too_much then
    redis.call('SET', key, string.format('%.3f', full), 'PX', math.max(math.ceil((full - now) / 1000), 1))
  end
  return { granted, math.max(math.ceil((full + each - per - now) / 1000), 0) }
end

function permit.concurrency(base, limit, hold_ms, args)
  local key, now = base .. K.permits, math.floor(now_us() / 1000)
  if #args < 4 or #args > 1003 then error({ err = 'INVALID give 1 to 1000 holders' }) end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local fresh, known, add, reply = {}, {}, {}, { 0, 0 }
  for i = 4, #args do
    if redis.call('ZSCORE', key, args[i]) then
      known[args[i]] = true
      add[#add + 1], add[#add + 2] = now + hold_ms, args[i]
    end
  end
  local free = limit - redis.call('ZCARD', key)
  for i = 4, #args do
    local holder = args[i]
    if not known[holder] and free > 0 then
      free, known[holder] = free - 1, true
      add[#add + 1], add[#add + 2] = now + hold_ms, holder
    end
    if known[holder] then
      reply[1] = reply[1] + 1
    else
      reply[#reply + 1] = i - 4
    end
  end
  if #add > 0 then
    HF.each('ZADD', key, add, 1, #add)
    local last = tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
    redis.call('PEXPIRE', key, last - now)
  end
  if free <= 0 then
    reply[2] = math.max(tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) - now, 1)
  end
  return reply
end

function T.permit(keys, args)
  local kind = permit[args[1]]
  if not kind then error({ err = 'INVALID a limit must be of rate or concurrency' }) end
  local limit = HF.integer(args[2], 'limit', 1, 1000000)
  return kind(keys[1], limit, HF.integer(args[3], 'a time', 1, HF.FOREVER), args)
end
