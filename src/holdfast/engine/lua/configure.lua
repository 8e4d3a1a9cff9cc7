--[[ configure: change settings; those not named stay. With none, read them.
  KEYS   queue
  ARGV   settings as a JSON object, by their names on the wire; '' to read
  Reply  all settings as JSON, those at their default included; what was set, as JSON
  Errors INVALID
  Cost   O(settings)                                                                            ]]

function T.configure(keys, args)
  local q = HF.open(keys[1])
  if args[1] ~= '' then
    local ok, changes = pcall(cjson.decode, args[1])
    if not ok or type(changes) ~= 'table' then error({ err = 'INVALID settings must be a JSON object' }) end
    local kept = redis.call('HGET', q.base, 'settings')
    local own = kept and cjson.decode(kept) or {}
    for name, value in pairs(changes) do
      local default = HF.DEFAULTS[name]
      if default == nil or type(default) ~= type(value) then
        error({ err = 'INVALID no setting ' .. tostring(name) .. ' of this type' })
      end
      own[name] = value
    end
    redis.call('HSET', q.base, 'settings', cjson.encode(own))
    -- What expires when may have changed.
    q.soonest = 0
    redis.call('HDEL', q.base, 'sweep')
    HF.save(q)
    q = HF.open(q.base)
  end
  local all = {}
  for name in pairs(HF.DEFAULTS) do all[name] = q.settings[name] end
  return { cjson.encode(all), redis.call('HGET', q.base, 'settings') or '{}' }
end
