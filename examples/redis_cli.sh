#!/bin/sh
# A queue at the command line, with nothing but redis-cli.
#
#     holdfast serve &
#     sh examples/redis_cli.sh 6399
set -eu
port=${1:-6399}
queue=${2:-example.orders}

mq() { redis-cli -e -h 127.0.0.1 -p "$port" "$@"; }

mq MQ.DELETE "$queue" >/dev/null

echo "Three orders, the last of them urgent:"
mq MQ.PUSH "$queue" "1 teapot" "2 cups"
mq MQ.SEND "$queue" PRIORITY 5 ATTR customer ada "3 spoons"

echo "Take all of them for a minute; the urgent one comes first:"
mq MQ.RECEIVE COUNT 10 LEASE 60000 "$queue"

echo "In hand, with the time of delivery, how long ago that was, and how often:"
mq MQ.INSPECT "$queue" PENDING 0 10

# Without a terminal MQ.INSPECT answers with five lines to a message, the id first.
ids=$(mq MQ.INSPECT "$queue" PENDING 0 10 | awk 'NR % 5 == 1')
first=$(echo "$ids" | sed -n 1p)
second=$(echo "$ids" | sed -n 2p)
third=$(echo "$ids" | sed -n 3p)

echo "The first is done, the second cannot be done, the third is for somebody else:"
mq MQ.ACK "$queue" "$first"
mq MQ.NACK "$queue" BURY REASON "no such customer" "$second"
mq MQ.NACK "$queue" RELEASE "$third"

echo "Dead letters, and why:"
mq MQ.DEAD "$queue" 0 10

echo "Last id, waiting, in hand:"
mq MQ.QINFO "$queue"
