// BullMQ. A job is active under a lock until it has run; a stalled one goes back ("Workers: Stalled jobs").
//
// Settings: concurrency ("Workers: Concurrency"), completed jobs are removed at once ("Auto-removal of
// jobs"), many are sent by `addBulk` ("Adding jobs in bulk"). The same program works and sends:
//
//   node bullmq_app.mjs work | turns | feed COUNT | paced COUNT RATE | stuck
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { done, stamp, STUCK } from "./tally.mjs";

const { Queue, Worker } = createRequire(`${process.env.PEERS_HOME}/`)("bullmq");
const { hostname, port } = new URL(process.env.PEERS_URL);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const crash = "PEERS_CRASH" in process.env;
const options = { removeOnComplete: true };
const [how, ...numbers] = process.argv.slice(2);

if (how === "work") {
  const worker = new Worker("bench", async (job) => done(job.data.n), {
    connection,
    concurrency: 20,
    removeOnComplete: { count: 0 },
    ...(crash ? { lockDuration: 5000, stalledInterval: 5000 } : {}),
  });
  worker.on("error", (error) => console.error(error));
  process.on("SIGTERM", () => worker.close().then(() => process.exit(0)));
} else {
  const queue = new Queue("bench", { connection, defaultJobOptions: options });
  await queue.waitUntilReady();
  console.log(JSON.stringify(await send(queue, how, ...numbers.map(Number))));
  await queue.close();
}

async function send(queue, how, count, perSecond) {
  if (how === "turns") {
    for await (const line of createInterface({ input: process.stdin })) {
      const single = await rate((n) => oneByOne(queue, n), 50, Number(line));
      const bulk = await rate((n) => inBulk(queue, n), 1000, Number(line));
      console.log(JSON.stringify({ single, bulk }));
    }
  }
  if (how === "feed") await inBulk(queue, count);
  if (how === "paced") await paced(queue, count, perSecond);
  if (how === "stuck") await queue.add("noop", { n: STUCK });
  return {};
}

// Tasks in 1000 s, as send.py has it.
async function rate(many, batch, ms) {
  await many(batch);
  const start = performance.now();
  let now = start;
  let sent = 0;
  while (now - start < ms) {
    await many(batch);
    sent += batch;
    now = performance.now();
  }
  return Math.round((sent * 1e6) / (now - start));
}

async function oneByOne(queue, count) {
  for (let n = 0; n < count; n++) await queue.add("noop", { n });
}

async function inBulk(queue, count) {
  for (let start = 0; start < count; start += 1000) {
    const length = Math.min(1000, count - start);
    await queue.addBulk(Array.from({ length }, (_, i) => ({ name: "noop", data: { n: start + i } })));
  }
}

async function paced(queue, count, perSecond) {
  const start = performance.now();
  for (let i = 0; i < count; i++) {
    const early = start + (i * 1000) / perSecond - performance.now();
    if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
    await queue.add("noop", { n: stamp() });
  }
}
