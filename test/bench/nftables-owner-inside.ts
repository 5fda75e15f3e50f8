// One endpoint of many Services changes in mode nftables, by a new nft each time and by the process that owns the table: from the text of
// the change to the answer of the kernel. Runs inside network and mount namespaces of its own, started by nftables.ts with the number of
// Services, where nft knows `flags owner,persist`. Prints one JSON line.
import { readFileSync } from 'node:fs';
import { type NftState, printNft } from '@sluice/netfilter';
import { frontendLines } from '../../packages/netfilter/src/nftables/frontend.ts';
import { NftOwner } from '../../packages/applier/src/kernel/nft/nft-owner.ts';
import { type NftWriter, OneShotWriter } from '../../packages/applier/src/kernel/nft/nft-writer.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { findTool } from '../../packages/applier/src/kernel/tools.ts';
import { mustBeInNamespace } from './in-namespace.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 1_000);
const endpoints = 5;
const rounds = 201;

const address = (first: number, n: number): string => `10.${first + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
const vip = (service: number): string => address(96, service + 256);
const pod = (service: number, at: number): string => address(128, service * endpoints + at);

const state: NftState = {
  settings: ['table 1 address', 'pods 10.128.0.0/9', 'keep 10.128.0.0/9', 'node 192.0.2.11', 'cidr 10.96.0.0/13'],
  frontends: new Map(
    Array.from({ length: services }, (_, service) => {
      const list = Array.from({ length: endpoints }, (_unused, at) => `${pod(service, at)} . 8080`);
      const lines = frontendLines({ isClusterIP: true, ranges: [], endpoints: list, local: [] });
      return [`${vip(service)} . tcp . 80`, lines] as const;
    }),
  ),
};

/** Another endpoint in the last slot of a Service, as `sluiced` writes it. */
function change(service: number, turn: number): string {
  const slot = `${vip(service)} . 80 . ${endpoints - 1}`;
  const fresh = address(240, turn + 1);
  return `delete element inet sluice tcp4 { ${slot} }\nadd element inet sluice loop4 { ${fresh} . ${fresh} }\nadd element inet sluice tcp4 { ${slot} : ${fresh} . 8080 }\n`;
}

let turn = 0;
/** @returns milliseconds of each change, sorted */
async function times(writer: NftWriter, count: number): Promise<readonly number[]> {
  const found: number[] = [];
  for (let round = 0; round < count; round++) {
    const text = change((++turn * 37) % services, turn);
    const started = performance.now();
    const { exitCode, why } = await writer.write(text);
    found.push(performance.now() - started);
    if (exitCode !== 0) throw new Error(why);
  }
  return found.toSorted((a, b) => a - b);
}

const nft = findTool('nft') ?? 'nft';
const run = runChildren();
const owner = new NftOwner({ nft, setpriv: findTool('setpriv'), lockFd: undefined, run, started: () => undefined });
const loaded = await new OneShotWriter(nft, run).write(
  printNft(state).replace(/^table inet sluice \{\n/m, (head) => `${head}  flags owner,persist;\n`),
);
if (loaded.exitCode !== 0) throw new Error(loaded.why);
const oneShot = await times(new OneShotWriter(nft, run), 41);
await owner.own();
if (owner.protection.kind !== 'owned') throw new Error(owner.protection.why);
const owned = await times(owner, rounds);
const again = await times(owner, rounds);
const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ');
const residentMb = Math.max(
  ...children.map((pid) => {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024;
  }),
);
owner.close();
const at = (sorted: readonly number[], share: number): number =>
  sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
process.stdout.write(
  `${JSON.stringify({
    oneShotMs: at(oneShot, 0.5),
    ownedMs: at(owned, 0.5),
    ownedP99Ms: at(owned, 0.99),
    againMs: at(again, 0.5),
    residentMb,
  })}\n`,
);
