// How long `sluiced doctor` takes on a node with many Services. Runs inside network and mount namespaces of its own, started by doctor.ts,
// with the number of Services, the store of mode iptables, or `nftables`, and the rounds. Prints one JSON line.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleProgram } from '../../tools/bundle.ts';
import type { DoctorCosts, Taken } from './doctor.ts';
import { publish } from './inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 10_000);
/** `nft`, `legacy`: the store of mode iptables; `nftables`: that mode. */
const way = process.argv[3] ?? 'nft';
const rounds = Number(process.argv[4] ?? 1);
const scratch = mkdtempSync(join(tmpdir(), 'sluice-doctor-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const [bundle, state] = [join(scratch, 'rendered'), join(scratch, 'state')];
const [config, program] = [join(scratch, 'sluiced.yaml'), join(scratch, 'sluiced.mjs')];
await bundleProgram(join(import.meta.dirname, '../..'), 'sluiced', program, true);
publish(bundle, services, way === 'nftables' ? 'nftables' : 'iptables');
mkdirSync(state, { mode: 0o700 });
writeFileSync(
  config,
  `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-0000\nsignatures: { policy: none }\nbundle: ${bundle}\nstate: ${state}\nbackend: ${way === 'nftables' ? 'nft' : way}\nprobation: { seconds: 0 }\n`,
);
execFileSync('/usr/sbin/ip', ['link', 'set', 'lo', 'up']);
execFileSync(process.execPath, [program, 'apply', bundle, '-c', config], { stdio: 'ignore' });

/** Of children that have ended, with theirs: user and system, seconds. */
function processorSeconds(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? [];
  return fields.slice(13, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}

function taken(work: () => void): Taken {
  const [before, started] = [processorSeconds(), performance.now()];
  work();
  return { seconds: (performance.now() - started) / 1000, processor: processorSeconds() - before };
}

let printed = '';
const doctor = (): void => {
  const args = [program, 'doctor', '-c', config, '-o', 'json'];
  printed = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 26 }).stdout;
};
const commands =
  way === 'nftables'
    ? [['nft', 'list', 'table', 'inet', 'sluice']]
    : [[`iptables-${way}-save`], [`ip6tables-${way}-save`]];
const tools = (): void => {
  for (const [file = '', ...args] of commands) execFileSync(`/usr/sbin/${file}`, args, { stdio: 'ignore' });
};

const runs = { ours: [] as Taken[], again: [] as Taken[], tools: [] as Taken[] };
for (let round = 0; round < rounds; round++) {
  runs.ours.push(taken(doctor));
  runs.tools.push(taken(tools));
  runs.again.push(taken(doctor));
}
const middle = (all: readonly Taken[]): Taken => ({
  seconds: median(all.map(({ seconds }) => seconds)),
  processor: median(all.map(({ processor }) => processor)),
});
const { unread, cause } = JSON.parse(printed) as {
  unread: readonly { what: string; because: string }[];
  cause: { code: string } | null;
};
const result: DoctorCosts = {
  ours: middle(runs.ours),
  again: middle(runs.again),
  tools: middle(runs.tools),
  unread: unread.map(({ what, because }) => `${what} (${because})`),
  cause: cause?.code ?? 'none',
};
process.stdout.write(`${JSON.stringify(result)}\n`);
