// Runs on a node of the rig: opens a new connection to each address as soon as the last one has ended, and counts answers in a file. With
// `--keep` it also keeps one connection to each.
import { Agent } from 'node:http';
import { renameSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ask } from './api.ts';

/** What became of the connections to an address. */
export interface Met {
  served: number;
  /** Answers of each pod. */
  readonly pods: Record<string, number>;
  /** By the code of the error. */
  readonly lost: Record<string, number>;
}

const { values, positionals } = parseArgs({ options: { keep: { type: 'boolean' } }, allowPositionals: true });
const [file = '', ...addresses] = positionals;
const met: Record<string, Met> = {};
/** At once, to each address. */
const clients = 2;
const patienceMs = 3_000;

const count = (counts: Record<string, number>, key: string): void => void (counts[key] = (counts[key] ?? 0) + 1);

async function visit(address: string, one: Met): Promise<void> {
  const answer = await ask(address, patienceMs);
  if ('pod' in answer) {
    one.served++;
    count(one.pods, answer.pod);
  } else count(one.lost, answer.lost);
  setTimeout(() => void visit(address, one), 10);
}

/** Asks on one connection for ever; a second one means that the first was lost. */
async function stay(address: string, one: Met, agent: Agent, isFirst = true): Promise<void> {
  const answer = await ask(address, 3_000, agent);
  if ('pod' in answer && !answer.isKept && !isFirst) one.lost['REPLACED'] = (one.lost['REPLACED'] ?? 0) + 1;
  setTimeout(() => void stay(address, one, agent, isFirst && 'lost' in answer), 50);
}

for (const address of addresses) {
  const one: Met = { served: 0, lost: {} };
  met[address] = one;
  for (let client = 0; client < clients; client++) void visit(address, one);
  if (values.keep) void stay(address, one, new Agent({ keepAlive: true, maxSockets: 1 }));
}
setInterval(() => {
  writeFileSync(`${file}.part`, JSON.stringify(met));
  renameSync(`${file}.part`, file);
}, 100);
