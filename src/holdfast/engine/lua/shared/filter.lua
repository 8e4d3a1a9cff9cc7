--[[ Filters on attributes, as a subscription names them: JSON, decoded once and remembered by its text.

    { "all": [filter …] }   { "any": [filter …] }
    { "attribute": name, "equals": text | "in": [text …] | "prefix": text | "exists": true | false }

  Mirror: filters.py decides the same; tests/filters.json holds the vectors for both.           ]]

local remembered, how_many = {}, 0

local function decoded(text)
  local found = remembered[text]
  if not found then
    found = cjson.decode(text)
    if how_many > 256 then remembered, how_many = {}, 0 end
    remembered[text], how_many = found, how_many + 1
  end
  return found
end

local function matches(f, attributes)
  if f.all then
    for _, part in ipairs(f.all) do if not matches(part, attributes) then return false end end
    return true
  elseif f.any then
    for _, part in ipairs(f.any) do if matches(part, attributes) then return true end end
    return false
  end
  local value = attributes[f.attribute]
  if f.exists ~= nil then return (value ~= nil) == f.exists end
  if value == nil then return false end
  if f.equals then return value == f.equals end
  if f.prefix then return string.sub(value, 1, #f.prefix) == f.prefix end
  for _, one in ipairs(f['in'] or {}) do if value == one then return true end end
  return false
end

local TESTS = { equals = 'string', prefix = 'string', exists = 'boolean', ['in'] = 'table' }

local function texts(list)
  for _, one in ipairs(list) do if type(one) ~= 'string' then return false end end
  return true
end

local function sound(f, depth)
  if type(f) ~= 'table' or depth > 16 then return false end
  local parts = f.all or f.any
  if parts then
    if type(parts) ~= 'table' then return false end
    for _, part in ipairs(parts) do if not sound(part, depth + 1) then return false end end
    return true
  end
  if type(f.attribute) ~= 'string' then return false end
  for test, kind in pairs(TESTS) do
    if type(f[test]) == kind then return kind ~= 'table' or texts(f[test]) end
  end
  return false
end

-- A filter that cannot be evaluated would stop every publish: it is refused when it comes.
function HF.check_filter(text)
  if text == '' then return end
  local ok, form = pcall(cjson.decode, text)
  if not ok or not sound(form, 0) then
    error({ err = 'INVALID a filter must be JSON: all, any, or an attribute with equals, in, prefix or exists' })
  end
end

function HF.matches(text, attributes)
  return text == '' or matches(decoded(text), attributes)
end

-- The attributes in a message, as a table.
function HF.attributes(r)
  local flags = string.byte(r, 14)
  if flags % 2 == 0 or flags >= HF.REF then return {} end
  local at = 19
  if flags % 8 >= HF.TTL then at = at + 6 end
  for _, flag in ipairs({ HF.GROUP, HF.UNIQUE }) do
    if math.floor(flags / flag) % 2 == 1 then at = at + 2 + struct.unpack('>I2', r, at) end
  end
  local n = struct.unpack('>I4', r, at)
  local ok, found = pcall(cmsgpack.unpack, string.sub(r, at + 4, at + 3 + n))
  return ok and type(found) == 'table' and found or {}
end
