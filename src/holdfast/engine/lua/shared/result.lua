--[[ Results of tasks: a list of one element, which ends by itself. A list, so that any number can wait for
  it with BLMOVE from the key to itself, which takes nothing away and leaves the end as it is.

  Written without a look at what lies there: a result of an earlier attempt, or what is none of ours, gives
  way. So it cannot fail, and may stand between other writes.                                   ]]

function HF.keep_result(base, tail, result, ttl_ms)
  local key = base .. K.result .. tail
  if redis.pcall('RPUSH', key, result) ~= 1 then
    redis.call('DEL', key)
    redis.call('RPUSH', key, result)
  end
  redis.call('PEXPIRE', key, ttl_ms)
end
