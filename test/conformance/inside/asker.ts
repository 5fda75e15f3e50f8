// Runs on a node of the rig: a server that says when a Service first answered this node as wanted, and what programs of this node use.
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, opens } from './api.ts';
import { askerPort, nowMs, type Question, type Used } from './nodes.ts';

const limitMs = 60_000;
/** Longer than a connection takes on a busy machine. */
const attemptMs = 1_000;

async function isMet({ address, wanted }: Question): Promise<boolean> {
  if (wanted === 'none') return !(await opens(address, attemptMs));
  if (wanted === 'any') return opens(address, attemptMs);
  const answer = await ask(address, attemptMs);
  return 'pod' in answer && answer.pod === wanted;
}

/**
 * When a Service first answered as wanted; after a minute in vain the time then. No attempt waits for the one before: a packet that meets no
 * rule may stay without an answer. Who waits longer looks less often, with an error of a fiftieth.
 */
async function firstMs(question: Question): Promise<number> {
  const startMs = nowMs();
  const first = { atMs: Infinity };
  const attempt = async (): Promise<void> => {
    const beganMs = nowMs();
    if (await isMet(question)) first.atMs = Math.min(first.atMs, question.wanted === 'none' ? beganMs : nowMs());
  };
  while (first.atMs === Infinity && nowMs() < startMs + limitMs) {
    void attempt();
    await sleep(Math.max(question.everyMs, (nowMs() - startMs) / 50));
  }
  return Math.min(first.atMs, nowMs());
}

/** By the name of the program, with the tools that it has started. */
function used(): Readonly<Record<string, Used>> {
  const found: Record<string, Used> = {};
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))) {
    try {
      const of = (file: string): string => readFileSync(`/proc/${pid}/${file}`, 'utf8');
      const name = /(?:kube-proxy|sluiced|sluice|(?<=\/)nft)(?=[^/\0]*\0)/.exec(of('cmdline'))?.[0];
      if (name === undefined) continue;
      const resident = Number(/^VmRSS:\s+(\d+)/m.exec(of('status'))?.[1] ?? 0);
      const ticks = (of('stat').split(') ')[1] ?? '').split(' ').slice(11, 15);
      const { residentKb = 0, seconds = 0 } = found[name] ?? {};
      const more = ticks.reduce((sum, one) => sum + Number(one), 0) / 100;
      found[name] = { residentKb: residentKb + resident, seconds: seconds + more };
    } catch {
      // It has ended.
    }
  }
  return found;
}

createServer((request, response) => {
  if (request.method === 'GET') return void response.end(JSON.stringify(used()));
  let text = '';
  request.setEncoding('utf8').on('data', (part: string) => (text += part));
  request.on('end', () => {
    // Who asks waits for these, and changes the Service then.
    response.flushHeaders();
    void firstMs(JSON.parse(text) as Question).then((atMs) => response.end(JSON.stringify(atMs)));
  });
}).listen(askerPort, process.argv[2]);
