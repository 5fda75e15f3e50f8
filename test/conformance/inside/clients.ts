// Runs on a node of the rig: opens a new connection to each address as soon as the last one has ended, and counts answers in a file.
import { renameSync, writeFileSync } from 'node:fs';
import { ask } from './api.ts';

/** What became of the connections to an address. */
export interface Met {
  served: number;
  /** By the code of the error. */
  readonly lost: Record<string, number>;
}

const [file = '', ...addresses] = process.argv.slice(2);
const met: Record<string, Met> = {};
/** At once, to each address. */
const clients = 2;

async function visit(address: string, one: Met): Promise<void> {
  const answer = await ask(address, 3_000);
  if ('pod' in answer) one.served++;
  else one.lost[answer.lost] = (one.lost[answer.lost] ?? 0) + 1;
  setTimeout(() => void visit(address, one), 10);
}

for (const address of addresses) {
  const one: Met = { served: 0, lost: {} };
  met[address] = one;
  for (let client = 0; client < clients; client++) void visit(address, one);
}
setInterval(() => {
  writeFileSync(`${file}.part`, JSON.stringify(met));
  renameSync(`${file}.part`, file);
}, 100);
