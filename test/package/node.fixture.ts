import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RuleStore } from '../../packages/applier/src/kernel/tools.ts';
import { type SampleOptions, sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { link, TestMachine, noMachineBecause, type ProgramResult, until } from './machine.fixture.ts';
import { artefact, packages } from './unpack.fixture.ts';

/** The reason why the package cannot be tested under a systemd here; empty if it can. */
export const noNodeBecause = packages.whyNot || noMachineBecause();

/** Every pod answers on port 8080 with its address. */
export const pods = {
  'etc/systemd/system/pod.socket':
    '[Socket]\nListenStream=0.0.0.0:8080\nAccept=yes\nMaxConnections=1000\n[Install]\nWantedBy=sockets.target\n',
  'etc/systemd/system/pod@.service': `[Unit]
CollectMode=inactive-or-failed
[Service]
StandardInput=socket
StandardOutput=socket
StandardError=null
ExecStart=/bin/sh -c 'read -r line; body=%i; printf "HTTP/1.0 200 OK\\\\r\\\\nContent-Length: $\${#body}\\\\r\\\\n\\\\r\\\\n$body"'
`,
} as const;

export const vip = 'http://10.96.0.11/';

/** The config of the node, with a probe through the VIP of the Service. */
export function configOf(backend: RuleStore, more: Readonly<Record<string, string>> = {}): string {
  const fields = {
    node: 'node-a',
    signatures: '{policy: none}',
    backend,
    scanIntervalSeconds: '2',
    probation: '{seconds: 1, deadmanSeconds: 30}',
    probes: `[{name: web, http: "${vip}", attempts: 3, intervalSeconds: 0.2, timeoutSeconds: 1}]`,
    ...more,
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`);
  return `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n${lines.join('')}`;
}

/** A bundle with a Service at `vip`, and a sysctl that differs from the node's default. */
export function bundleOf(endpoints: readonly number[], more: SampleOptions = {}): ReadonlyMap<string, string> {
  const sysctls = ['net.ipv4.conf.all.route_localnet = 1'];
  return sampleBundle({ services: { 'shop/web': endpoints }, families: ['ipv4', 'ipv6'], sysctls, ...more });
}

/** A machine with pods, a config and a bundle, where our package was never installed. */
export async function bootNode(backend: RuleStore, files: Readonly<Record<string, string>> = {}): Promise<TestMachine> {
  return TestMachine.boot((disk) => {
    const all = { ...pods, 'etc/sluice/sluiced.yaml': configOf(backend), ...files };
    for (const [path, text] of Object.entries(all)) {
      mkdirSync(dirname(join(disk, path)), { recursive: true });
      writeFileSync(join(disk, path), text);
    }
    link('/etc/systemd/system/pod.socket', join(disk, 'etc/systemd/system/sockets.target.wants/pod.socket'));
    writeBundle(join(disk, 'etc/sluice/rendered'), bundleOf([1, 2]));
    copyFileSync(artefact('_amd64.deb'), join(disk, 'sluice.deb'));
  });
}

/** Publishes another bundle for the node, as `sluice render` writes it. */
export function publish(machine: TestMachine, files: ReadonlyMap<string, string>): void {
  writeBundle(`${machine.root}/etc/sluice/rendered`, files);
}

export async function install(machine: TestMachine, deb = '/sluice.deb'): Promise<ProgramResult> {
  const { stdout, stderr, exitCode } = await machine.run('dpkg', '-i', deb);
  return { stdout, stderr, exitCode };
}

/** The rules of all tables and both families, without counters and dates. */
export async function rulesOf(machine: TestMachine, backend: RuleStore): Promise<string> {
  const save = async (name: string): Promise<string> => machine.must(`${name}-${backend}-save`);
  return [await save('iptables'), await save('ip6tables')]
    .join('\n')
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
    .join('\n');
}

/** The fields of `sluiced status -o json` that tests read. */
export interface StatusText {
  readonly generation: number | null;
  readonly open: string | null;
  readonly release: object | null;
  readonly held: string | null;
  readonly quarantined: object;
  readonly daemon: { readonly healthy: boolean } | null;
}

/** The status of the node. */
export async function statusOf(machine: TestMachine): Promise<StatusText> {
  const { stdout } = await machine.run('sluiced', 'status', '-o', 'json');
  return JSON.parse(stdout) as StatusText;
}

/** Waits until a generation is active, no transaction is open, and the daemon answers. */
export async function untilActive(machine: TestMachine, generation: number): Promise<void> {
  const look = async (): Promise<boolean> => {
    const status = await statusOf(machine);
    return status.generation === generation && status.open === null && status.daemon !== null;
  };
  try {
    await until(`generation ${generation}`, look);
  } catch (error) {
    const output = (await machine.journal('-u', 'sluice*', '-n', '40')).split('\n');
    throw new Error([String(error), JSON.stringify(await statusOf(machine)), ...output].join('\n'), { cause: error });
  }
}

/** Throws if the node is halted, or a version is quarantined. */
export async function expectHealthy(machine: TestMachine): Promise<void> {
  const { held, quarantined, daemon } = await statusOf(machine);
  const isHealthyFleet = held === null && Object.keys(quarantined).length === 0 && daemon?.healthy === true;
  if (!isHealthyFleet) throw new Error(JSON.stringify({ held, quarantined, daemon }));
}

/** Waits until packets meet a release on probation. */
export async function onProbation(machine: TestMachine): Promise<void> {
  await until('a trial', async () => {
    const { stdout } = await machine.run('ipset', 'list', '-n');
    const { open } = await statusOf(machine);
    return open !== null && stdout.includes('SLUICE');
  });
}

export const mainPid = (machine: TestMachine): Promise<string> => machine.property('sluiced.service', 'MainPID');
