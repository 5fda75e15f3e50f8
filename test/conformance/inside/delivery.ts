// Runs on a node of the rig: how long after the API server's answer a packet of this node meets a change. Prints JSON.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { senderOf, services, serviceOf, sliceOf, slices } from './api.ts';

/** Milliseconds of each change, and kilobytes resident of the programs that serve Services, with this many Services more. */
export interface Delivered {
  readonly added: readonly number[];
  readonly replaced: readonly number[];
  readonly residentKb: Readonly<Record<string, number>>;
}

const [kubeconfig = '', rounds = '10', more = '0'] = process.argv.slice(2);
const send = senderOf(kubeconfig);
/** Addresses of pods of this node that no pod has. */
const pods = ['10.244.1.250', '10.244.1.251'] as const;

/** Milliseconds until a new connection to an address is answered by a pod. A SYN without an answer is repeated late: each attempt is a new one. */
async function answeredBy(pod: string, address: string): Promise<number> {
  const startMs = performance.now();
  const { promise, resolve } = Promise.withResolvers<number>();
  const timer = setInterval(() => {
    const socket = connect({ host: address, port: 80 });
    socket.setTimeout(300, () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.on('data', (data) => data.toString() === pod && resolve(performance.now() - startMs));
  }, 3);
  const late = setTimeout(() => resolve(120_000), 120_000);
  try {
    return await promise;
  } finally {
    clearInterval(timer);
    clearTimeout(late);
  }
}

/** Resident memory of the programs, by the number of the process and their name. */
function residentKb(): Record<string, number> {
  const found: Record<string, number> = {};
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const name = /(?:kube-proxy|sluiced|sluice)(?=[^/\0]*\0)/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.[0];
      const resident = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
      const isOwn = pid === String(process.pid);
      if (name !== undefined && resident !== undefined && !isOwn) found[`${name} ${pid}`] = Number(resident);
    } catch {
      // It has ended.
    }
  }
  return found;
}

for (const pod of pods) {
  execFileSync('ip', ['address', 'add', `${pod}/32`, 'dev', 'lo']);
  createServer((socket) => socket.on('error', () => socket.destroy()).end(pod)).listen(8080, pod);
}
for (let at = 0; at < Number(more); at += 20) {
  const names = Array.from({ length: 20 }, (_, n) => `more-${at + n}`);
  await Promise.all(names.map((name) => send('POST', services, serviceOf(name))));
  await Promise.all(names.map((name) => send('POST', slices, sliceOf(name, ...pods))));
}
if (Number(more) > 0) await sleep(15_000);
const [added, replaced]: [number[], number[]] = [[], []];
for (let round = 1; round <= Number(rounds); round++) {
  const [name, address] = [`delivered-${round}`, `10.96.200.${round}`];
  await send('POST', services, serviceOf(name, address));
  await send('POST', slices, sliceOf(name, pods[0]));
  added.push(await answeredBy(pods[0], address));
  await sleep(700);
  await send('PUT', `${slices}/${name}`, sliceOf(name, pods[1]));
  replaced.push(await answeredBy(pods[1], address));
  await sleep(700);
}
process.stdout.write(JSON.stringify({ added, replaced, residentKb: residentKb() } satisfies Delivered));
process.exit(0);
