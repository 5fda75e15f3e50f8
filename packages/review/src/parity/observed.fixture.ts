import { type BundleFiles, type Observation, observationOf, type ParityReport, textsOf } from '@sluice/bundle';
import { families, type Family, type FamilyProgram, type IpvsState, printServers, printSets } from '@sluice/netfilter';
import { factOf, nodeOf } from '../bundle/node.ts';
import { hasFamily, viewOf } from '../bundle/view.ts';
import { bundleOf } from '../example.fixture.ts';
import { type Layout, wholeProgram } from '../flows/layout.ts';
import { parityOf } from './parity.ts';

/** Texts of tools, by the names that `sluiced observe --from` reads. */
export type SavedFiles = Map<string, string>;

/** What a node would save whose kernel holds a bundle's rules: in layout `flat` these are kube-proxy's. */
export function savedFiles(files: BundleFiles, name: string, layout: Layout = 'flat'): SavedFiles {
  const view = viewOf(files);
  const node = nodeOf(view, name);
  const empty = ['iptables', 'ip6tables'].flatMap((tool) => [`${tool}-nft-save.txt`, `${tool}-legacy-save.txt`]);
  const saved: SavedFiles = new Map(
    [...empty, 'ipset.txt', 'ipvsadm.txt', 'ip-addr.txt', 'ip-route.txt', 'sysctl.txt'].map((one) => [one, '']),
  );
  saved.set('nft.json', nftJson([]));
  saved.set('sysctl.txt', 'net.ipv4.conf.all.route_localnet = 1\n');
  const own = families.flatMap((family) => {
    const address = factOf(node, family, 'address');
    return address === undefined
      ? []
      : [`    ${family === 'ipv4' ? 'inet' : 'inet6'} ${address}/24 scope global eth0\n`];
  });
  const interfaces = `1: lo: <LOOPBACK,UP>\n    inet 127.0.0.1/8 scope host lo\n2: eth0: <UP>\n${own.join('')}3: eth1: <UP>\n    inet6 fe80::1/64 scope link\n`;
  saved.set('ip-addr.txt', interfaces);
  const states: IpvsState[] = [];
  for (const family of families.filter((one) => hasFamily(view, node.file.profile, one))) {
    const { rules, ipvs } = wholeProgram(view, node, family, layout);
    saved.set(`${family === 'ipv4' ? 'iptables' : 'ip6tables'}-nft-save.txt`, printSaved(rules));
    if (ipvs) states.push(ipvs);
  }
  saved.set('ipset.txt', states.map(printSets).join(''));
  saved.set('ipvsadm.txt', states.map(({ virtualServers }) => printServers({ virtualServers })).join(''));
  const bound = (['ipv4', 'ipv6'] as const).flatMap((family: Family) =>
    states.flatMap(({ addresses }) => addresses[family]),
  );
  const lines = bound.map(
    (one) =>
      `    ${one.includes(':') ? 'inet6' : 'inet'} ${one}/${one.includes(':') ? 128 : 32} scope global kube-ipvs0\n`,
  );
  if (bound.length > 0) saved.set('ip-addr.txt', `${interfaces}4: kube-ipvs0: <BROADCAST,NOARP>\n${lines.join('')}`);
  return saved;
}

/** What `nft -j list ruleset` prints of these objects. */
export const nftJson = (objects: readonly object[]): string =>
  JSON.stringify({ nftables: [{ metainfo: { json_schema_version: 1 } }, ...objects] });

export const observe = (node: string, saved: SavedFiles): Observation =>
  observationOf({ node, tools: {} }, textsOf(saved));

const builtIn = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
} as const;

function printSaved(program: FamilyProgram): string {
  return (['filter', 'nat'] as const)
    .map((table) => {
      const { chains, jumps } = program[table];
      return [
        `*${table}`,
        ...builtIn[table].map((chain) => `:${chain} ACCEPT [0:0]`),
        ...[...chains.keys()].map((chain) => `:${chain} - [0:0]`),
        ...jumps,
        ...[...chains.values()].flat(),
        'COMMIT\n',
      ].join('\n');
    })
    .join('');
}

/** Of each example. */
export const node = 'node-1';

/** The report for a node of an example whose kernel holds its rules, changed. */
export function compared(
  example: string,
  change: (saved: SavedFiles) => void = () => undefined,
  layout: 'flat' | 'tree' = 'flat',
): ParityReport {
  const files = bundleOf(example);
  const saved = savedFiles(files, node, layout);
  change(saved);
  const report = parityOf(files, observe(node, saved), node, (rule) => `observed.json:${rule.length}`);
  return report;
}

/** Replaces text of the rules of IPv4; it must be there. */
export const edit =
  (from: string | RegExp, to: string) =>
  (saved: SavedFiles): void => {
    const text = saved.get('iptables-nft-save.txt') ?? '';
    const changed = text.replace(from, to);
    if (changed === text) throw new Error(`${String(from)} is not in\n${text}`);
    saved.set('iptables-nft-save.txt', changed);
  };
