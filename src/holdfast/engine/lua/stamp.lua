--[[ stamp: a write of its own beside a queue, for who waits until replicas have what was said of it. WAIT counts
  from the connection's last write; a repetition, a duplicate or an ack that came too late writes nothing, and
  tells of what another connection wrote.
  KEYS   queue
  ARGV   –
  Reply  1
  Errors –
  Cost   O(1)
  Flags  allow-oom                                                                              ]]

function T.stamp(keys, args)
  redis.call('SET', keys[1] .. K.stamp, '', 'PX', '1000')
  return 1
end
