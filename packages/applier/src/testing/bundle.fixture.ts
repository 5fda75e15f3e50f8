import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { completeFile, completeText, fileDigest, gitFiles } from '@sluice/bundle';
import { printEndpoint, printNftTable } from '@sluice/netfilter';
import { ipvsBundle } from '../../../bundle/src/virtual/bundle.fixture.ts';

/** For tests only: small bundles in the form that `sluice render` writes. */
export interface SampleOptions {
  /** The endpoints of each Service, as numbers in the last part of the address; undefined: it is not there, and keeps its address. */
  readonly services?: SampleServices;
  readonly complete?: boolean;
  /** Mode ipvs has IPv4 alone. */
  readonly mode?: 'iptables' | 'ipvs' | 'nftables';
  readonly families?: readonly string[];
  /** Of every Service; left out: TCP. */
  readonly protocol?: 'udp';
  /** Lines of base/sysctl.conf. */
  readonly sysctls?: readonly string[];
  /** Lines that go into the nat section of a further file. */
  readonly extraNat?: readonly string[];
}

/** The address of a Service follows from its place. */
export type SampleServices = Readonly<Record<string, readonly number[] | undefined>>;

export const sampleNode = 'node-a';

/** A name of 16 characters from the alphabet of chain hashes. */
export function hash16(text: string): string {
  return fileDigest(text)
    .slice(0, 16)
    .replaceAll(/./g, (digit) => 'ABCDEFGHIJKLMNOP'.charAt(Number.parseInt(digit, 16)));
}

/** The files of a bundle for `node-a`: path → text. */
export function sampleBundle(options: SampleOptions = {}): Map<string, string> {
  const services = options.services ?? { 'shop/web': [1, 2] };
  const mode = options.mode ?? 'iptables';
  const families = mode === 'ipvs' ? ['ipv4'] : (options.families ?? ['ipv4']);
  const files = new Map(Object.entries(gitFiles));
  const head = 'apiVersion: sluice.dev/v1alpha1\n';
  files.set(
    'cluster.yaml',
    `${head}kind: Cluster\nformat: 1\nname: test\ncomplete: ${options.complete ?? true}\nserviceCIDRs: [10.96.0.0/12]\n`,
  );
  files.set(
    'profiles/default/profile.yaml',
    `${head}kind: Profile\nmode: ${mode}\nfamilies: [${families.join(', ')}]\nneeds: [${mode === 'iptables' ? 'random-fully' : ''}]\nnodePortAddresses: []\nvalues: {}\n`,
  );
  files.set(`nodes/${sampleNode}/node.yaml`, `${head}kind: Node\nprofile: default\nvalues: {}\n`);
  for (const [family, tool] of [
    ['ipv4', 'iptables'],
    ['ipv6', 'ip6tables'],
  ] as const) {
    if (!families.includes(family) || mode !== 'iptables') continue;
    files.set(`profiles/default/base/first.${tool}`, baseFirst);
    for (const [index, [name, endpoints]] of Object.entries(services).entries()) {
      if (!endpoints) continue;
      files.set(`profiles/default/services/${name}.${tool}`, serviceText(name, index, endpoints, family === 'ipv6'));
    }
    if (options.extraNat)
      files.set(`profiles/default/base/last.${tool}`, `*nat\n${options.extraNat.join('\n')}\nCOMMIT\n`);
  }
  if (mode === 'nftables') addNftFiles(files, services, families);
  if (mode === 'ipvs') addIpvsFiles(files, services);
  if (options.protocol) for (const [path, text] of files) if (path.includes('/services/')) files.set(path, inUdp(text));
  if (options.sysctls)
    files.set('profiles/default/base/sysctl.conf', options.sysctls.map((line) => `${line}\n`).join(''));
  return files;
}

const inUdp = (text: string): string =>
  text
    .replaceAll('-m tcp -p tcp', '-m udp -p udp')
    .replaceAll(' . tcp . ', ' . udp . ')
    .replaceAll(/ tcp(?=[46] \{)/g, ' udp');

const baseFirst = `*filter
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
COMMIT
`;

/** The address of the n-th Service. */
const vipOf = (index: number, v6: boolean): string =>
  v6 ? `fd00:96::${(index + 10).toString(16)}` : `10.96.${Math.floor((index + 10) / 250)}.${((index + 10) % 250) + 1}`;

/** The address of an endpoint by its number. */
const endpointAt = (n: number, v6: boolean): string =>
  v6 ? `fd00:10::${n.toString(16)}` : `10.244.${Math.floor(n / 250)}.${(n % 250) + 1}`;

function addNftFiles(files: Map<string, string>, services: SampleServices, families: readonly string[]): void {
  const frontends = Object.entries(services).flatMap(([name, endpoints], index) => {
    if (!endpoints) return [];
    const of = families.map((family) => {
      const v6 = family === 'ipv6';
      return { vip: vipOf(index, v6), endpoints: endpoints.map((n) => endpointAt(n, v6)) };
    });
    return [[name, of] as const];
  });
  for (const [path, text] of nftFiles(new Map(frontends))) files.set(`profiles/default/${path}`, text);
}

/** The profile and base files of the sample of mode ipvs, and these Services. */
function addIpvsFiles(files: Map<string, string>, services: SampleServices): void {
  for (const [path, text] of ipvsBundle)
    if (path.startsWith('profiles/default/') && !path.includes('/services/')) files.set(path, text);
  for (const [index, [name, endpoints]] of Object.entries(services).entries()) {
    if (!endpoints) continue;
    const vip = vipOf(index, false);
    const at = endpoints.map((n) => endpointAt(n, false));
    const sets = [
      `add KUBE-CLUSTER-IP ${vip},tcp:80`,
      `add KUBE-IPVS-IPS ${vip}`,
      ...at.map((one) => `add KUBE-LOOP-BACK ${one},tcp:8080,${one}`),
    ];
    const servers = [`-A -t ${vip}:80 -s rr`, ...at.map((one) => `-a -t ${vip}:80 -r ${one}:8080 -m -w 1`)];
    files.set(`profiles/default/services/${name}.ipset`, `${sets.toSorted().join('\n')}\n`);
    files.set(`profiles/default/services/${name}.ipvs`, `${servers.join('\n')}\n`);
  }
}

function serviceText(name: string, index: number, endpoints: readonly number[], v6: boolean): string {
  const vip = vipOf(index, v6);
  const chain = `KUBE-SVC-${hash16(name)}`;
  const comment = (text: string): string => `-m comment --comment "${text}"`;
  if (endpoints.length === 0) {
    return `*filter\n-A KUBE-SERVICES ${comment(`${name} has no endpoints`)} -m tcp -p tcp -d ${vip} --dport 80 -j REJECT\nCOMMIT\n`;
  }
  const at = (n: number): string => endpointAt(n, v6);
  const seps = endpoints.map((n) => ({
    chain: `KUBE-SEP-${hash16(`${name}${n}`)}`,
    address: at(n),
    to: printEndpoint(at(n), 8080),
  }));
  const lines = ['*nat', `:${chain} - [0:0]`, ...seps.map((sep) => `:${sep.chain} - [0:0]`)];
  lines.push(`-A KUBE-SERVICES ${comment(`${name} cluster IP`)} -m tcp -p tcp -d ${vip} --dport 80 -j ${chain}`);
  for (const [i, sep] of seps.entries()) {
    const left = seps.length - i;
    const chance = left > 1 ? ` -m statistic --mode random --probability ${(1 / left).toFixed(10)}` : '';
    lines.push(`-A ${chain} ${comment(`${name} -> ${sep.to}`)}${chance} -j ${sep.chain}`);
    lines.push(`-A ${sep.chain} ${comment(name)} -s ${sep.address} -j KUBE-MARK-MASQ`);
    lines.push(`-A ${sep.chain} ${comment(name)} -m tcp -p tcp -j DNAT --to-destination ${sep.to}`);
  }
  return `${[...lines, 'COMMIT'].join('\n')}\n`;
}

/** Writes a bundle as `sluice render` does: the seal is removed first and written last. */
export function writeBundle(directory: string, files: ReadonlyMap<string, string>): void {
  rmSync(`${directory}/${completeFile}`, { force: true });
  for (const [path, text] of files) {
    mkdirSync(dirname(`${directory}/${path}`), { recursive: true });
    writeFileSync(`${directory}/${path}`, text);
  }
  const digests = new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
  writeFileSync(`${directory}/${completeFile}`, completeText(digests));
}

const element = (set: string, ...elements: readonly string[]): string =>
  `add element inet sluice ${set} { ${elements.join(', ')} }\n`;

/** A Service of a sample bundle in one family. */
interface SampleFrontend {
  readonly vip: string;
  readonly endpoints: readonly string[];
}

/** The files of sample Services in mode nftables, below the profile. */
function nftFiles(
  services: ReadonlyMap<string, readonly SampleFrontend[]>,
  extraBase: readonly string[] = [],
): readonly (readonly [path: string, text: string])[] {
  return [
    ['base/first.nft', printNftTable({ detector: 'address', masqueradeAll: false })],
    ['base/last.nft', [element('node4', '192.0.2.11'), ...extraBase.map((line) => `${line}\n`)].join('')],
    ...[...services].map(
      ([name, frontends]) => [`services/${name}.nft`, frontends.map(frontendText).join('')] as const,
    ),
  ];
}

function frontendText({ vip, endpoints }: SampleFrontend): string {
  const n = vip.includes(':') ? '6' : '4';
  const key = `${vip} . tcp . 80`;
  const head = element(`cluster${n}`, vip);
  if (endpoints.length === 0) return head + element(`none${n}`, `${key} : goto refuse`);
  const list = endpoints.map((one) => element(`tcp${n}`, `${vip} . 80 . \${slot} : ${one} . 8080`));
  const here = endpoints.map((one) => element(`loop${n}`, `${one} . ${one}`));
  return [head, element(`svc${n}`, `${key} : goto n\${count}`), ...list, ...here].join('');
}
