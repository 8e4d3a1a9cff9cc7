// A producer and a worker in node, over the ordinary `redis` package.
//
//     holdfast serve &
//     cd examples/node && npm install && node worker.cjs redis://127.0.0.1:6399
const { createClient } = require('redis');

const url = process.argv[2] ?? 'redis://127.0.0.1:6399';
const queue = process.argv[3] ?? 'example.mail';

async function main() {
  const producer = await createClient({ url }).connect();
  // Who waits for messages waits alone: a connection answers in the order in which it was asked.
  const worker = await createClient({ url }).connect();

  await producer.sendCommand(['MQ.PUSH', queue, 'ada@example.org', 'no address', 'grace@example.org']);

  for (let left = 3; left > 0; left--) {
    // Under a lease: if this worker dies, the message comes back after 30 seconds.
    const got = await worker.sendCommand(['MQ.RECEIVE', 'COUNT', '1', 'BLOCK', '5000', 'LEASE', '30000', queue]);
    if (got === null) throw new Error('nothing came in five seconds');
    const [[key, , address, receipt]] = got;
    if (address.includes('@')) {
      console.log(`mail to ${address}`);
      await worker.sendCommand(['MQ.ACK', key, receipt]);
    } else {
      console.log(`cannot send to ${address}`);
      await worker.sendCommand(['MQ.NACK', key, 'BURY', 'REASON', 'not an address', receipt]);
    }
  }

  const dead = await producer.sendCommand(['MQ.DEAD', queue, '0', '10']);
  console.log(`dead letters: ${dead.length}`);
  await producer.sendCommand(['MQ.DELETE', queue]);
  await producer.close();
  await worker.close();
}

main().catch((error) => { console.error(error); process.exitCode = 1; });
