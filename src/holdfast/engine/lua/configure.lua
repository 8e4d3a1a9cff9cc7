--[[ configure: change settings; those not named stay. With none, read them.
  KEYS   queue
  ARGV   settings as a JSON object, by their names on the wire; '' to read
  Reply  all settings as JSON, those at their default included; what was set, as JSON
  Errors INVALID
  Cost   O(settings)

  Where there are shards, the first one decides, and its settings are copied to the others. `edition` tells which
  change they are of: it grows with each at the first shard, also over a delete, and another shard takes no
  settings of an earlier edition than it has. So those who change them at the same time cannot leave
  a shard open that the first does not count. Said to the first shard: 0 begins an edition; another
  one: only if that is still the last. Nothing is changed otherwise; the reply tells.             ]]

local function decoded(text)
  local ok, changes = pcall(cjson.decode, text)
  if not ok or type(changes) ~= 'table' then error({ err = 'INVALID settings must be a JSON object' }) end
  for name, value in pairs(changes) do
    local default = HF.DEFAULTS[name]
    if default == nil or type(default) ~= type(value) then
      error({ err = 'INVALID no setting ' .. tostring(name) .. ' of this type' })
    end
  end
  return changes
end

-- The edition after these changes; nil if they come too late.
local function edition_after(q, own, changes)
  local said, last = changes.edition, own.edition or 0
  if HF.shard(q.base) > 0 then
    if said and said < last then return nil end
    return said or own.edition
  end
  if said and said > 0 then return said == last and last or nil end
  if not said and not changes.shards and (own.shards or 1) == 1 then return own.edition end
  return math.max(HF.clock_ms(), last + 1)
end

local function change(q, text)
  local changes = decoded(text)
  local kept = redis.call('HGET', q.base, 'settings')
  local own = kept and cjson.decode(kept) or {}
  local edition = edition_after(q, own, changes)
  if (changes.edition or own.edition) and not edition then return q end
  for name, value in pairs(changes) do own[name] = value end
  own.edition = edition
  redis.call('HSET', q.base, 'settings', cjson.encode(own))
  -- What expires when may have changed.
  q.soonest = 0
  redis.call('HDEL', q.base, 'sweep')
  HF.save(q)
  return HF.open(q.base)
end

function T.configure(keys, args)
  local q = HF.open(keys[1])
  if args[1] ~= '' then q = change(q, args[1]) end
  local all = {}
  for name in pairs(HF.DEFAULTS) do all[name] = q.settings[name] end
  return { cjson.encode(all), redis.call('HGET', q.base, 'settings') or '{}' }
end
