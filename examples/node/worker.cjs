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
    const got = await worker.sendCommand(['MQ.POP', 'COUNT', '1', 'BLOCK', '5000', queue]);
    if (got === null) throw new Error('nothing came in five seconds');
    const [[key, id, address]] = got;
    if (address.includes('@')) {
      console.log(`mail to ${address}`);
      await worker.sendCommand(['MQ.ACK', key, id]);
    } else {
      console.log(`cannot send to ${address}`);
      await worker.sendCommand(['MQ.NACK', key, 'BURY', 'REASON', 'not an address', id]);
    }
  }

  const dead = await producer.sendCommand(['MQ.DEAD', queue, '0', '10']);
  console.log(`dead letters: ${dead.length}`);
  await producer.sendCommand(['MQ.DELETE', queue]);
  await producer.close();
  await worker.close();
}

main().catch((error) => { console.error(error); process.exitCode = 1; });
