// The twin of tally.py, for node: the same numbers, the same pipes, the same two moments.
import fs from "node:fs";

export const STAMP = 1e15;
export const STUCK = 987654321;

const folder = process.env.PEERS_FOLDER ?? "";
const warm = Number(process.env.PEERS_WARM ?? 0);
const total = Number(process.env.PEERS_TOTAL ?? 0);
const paced = Number(process.env.PEERS_PACED ?? 0);

const seen = new Uint8Array(total);
const latencies = [];
let count = 0;
let again = 0;
let first = 0n;

// CLOCK_MONOTONIC, as Python's time.monotonic_ns.
const now = () => process.hrtime.bigint();
export const stamp = () => STAMP + Number(now() / 1000n);

export function done(n) {
  if (n >= STAMP) {
    latencies.push(stamp() - n);
    if (latencies.length === paced) tell({ moment: "paced", us: latencies });
  } else if (n === STUCK) {
    tell({ moment: "stuck" });
    wait();
  } else if (seen[n]) {
    again += 1;
  } else {
    seen[n] = 1;
    count += 1;
    if (count === warm) {
      tell({ moment: "first" });
      wait();
      first = now();
    } else if (count === total) {
      tell({ moment: "last", ns: Number(now() - first), again });
    }
  }
}

function tell(what) {
  fs.writeFileSync(`${folder}/told`, JSON.stringify(what) + "\n");
}

function wait() {
  const pipe = fs.openSync(`${folder}/go`, "r");
  fs.readSync(pipe, Buffer.alloc(1));
  fs.closeSync(pipe);
}
