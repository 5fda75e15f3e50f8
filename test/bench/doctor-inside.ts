// How long `sluiced doctor` takes on a node with many Services. Runs inside network and mount namespaces of its own, started by doctor.ts,
// with the number of Services and the store of mode iptables, or `nftables`. Prints one JSON line.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleProgram } from '../../tools/bundle.ts';
import { publish } from './inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 10_000);
/** `nft`, `legacy`: the store of mode iptables; `nftables`: that mode. */
const way = process.argv[3] ?? 'nft';
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

const before = processorSeconds();
const started = performance.now();
const ran = spawnSync(process.execPath, [program, 'doctor', '-c', config, '-o', 'json'], {
  encoding: 'utf8',
  maxBuffer: 2 ** 26,
});
const seconds = (performance.now() - started) / 1000;
const { unread, cause } = JSON.parse(ran.stdout) as {
  unread: readonly { what: string; because: string }[];
  cause: { code: string } | null;
};
const result = {
  seconds,
  processor: processorSeconds() - before,
  unread: unread.map(({ what, because }) => `${what} (${because})`),
  cause: cause?.code ?? 'none',
};
process.stdout.write(`${JSON.stringify(result)}\n`);
