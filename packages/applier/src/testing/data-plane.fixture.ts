import type { FakeKernel } from '../kernel/fake/fake.fixture.ts';
import type { ObservedNft } from '../ports/nftables/observed.ts';
import { servedBy } from './nftables.fixture.ts';

/** For tests only: the data planes on which the transaction is tested. Mode nftables has no layouts: its node has that of most nodes. */
export const dataPlanes = [
  { layout: 'flat', mode: 'iptables' },
  { layout: 'tree', mode: 'iptables' },
  { layout: 'tree', mode: 'nftables' },
  { layout: 'flat', mode: 'ipvs' },
] as const;

/**
 * All that a kernel holds of all data planes, so that two texts are equal if packets are treated alike and nothing else is left. Of the
 * table of mode nftables it lacks slots and halves, which say where an endpoint is stored, and the chains of lists, which stay.
 */
export function kernelText(kernel: FakeKernel): string {
  return `${kernel.save('ipv4')}${kernel.save('ipv6')}${tableText(kernel.nft.list())}${virtualText(kernel)}`;
}

/** Virtual servers with what they give new connections, sets and addresses. */
function virtualText({ ipvs }: FakeKernel): string {
  const { servers, sets, bound } = ipvs.list();
  const lines = [
    ...[...servers].map(([key, { scheduler, real }]) => {
      const serving = [...real].filter(([, { weight }]) => weight > 0).map(([to, { weight }]) => `${to} ${weight}`);
      return `${key} ${scheduler} ${serving.toSorted().join()}`;
    }),
    ...[...sets].flatMap(([name, { entries }]) => [...entries].map((entry) => `${name} ${entry}`)),
    ...[...(bound?.ipv4 ?? []), ...(bound?.ipv6 ?? [])].map((address) => `kube-ipvs0 ${address}`),
  ];
  return lines
    .toSorted()
    .map((line) => `${line}\n`)
    .join('');
}

function tableText(table: ObservedNft | undefined): string {
  if (!table) return '';
  const elements = [...table.elements].flatMap(([set, held]) =>
    [...held].map(([key, value]) => {
      const place = /^(?:tcp|udp|sctp|slot)[46]$/.test(set) ? key.replace(/ \. \d+$/, '') : key;
      return `${set.replace(/^(l?id)b/, '$1')} ${place} : ${value.replace(/(?<=goto \S+)b$/, '')}\n`;
    }),
  );
  const rules = [...table.chains].flatMap(([name, all]) =>
    /^p?(?:[nl]\d+|[sr]\d+t\d+)b?(?:-known)?$/.test(name) ? [] : all.map((rule) => `${name} ${rule}\n`),
  );
  return [...elements, ...rules].toSorted().join('');
}

/**
 * The IPv4 endpoints of a sample bundle by their numbers, each once and ascending: those in table nat, which may belong to two programs on
 * probation, or in mode nftables those that packets are sent to.
 */
export function endpointNumbers(kernel: FakeKernel): readonly number[] {
  const table = kernel.nft.list();
  const frontends = table ? [...(table.elements.get('svc4') ?? []), ...(table.elements.get('tsvc4') ?? [])] : [];
  const served = frontends.flatMap(([key]) =>
    servedBy(table as ObservedNft, key.replace(' . 6 . ', ' . tcp . ').replace(' . 17 . ', ' . udp . ')),
  );
  const targets = kernel.save('ipv4').match(/(?<=--to-destination )\S+/g) ?? [];
  const servers = [...kernel.ipvs.list().servers.values()].flatMap(({ real }) => [...real]);
  const virtual = servers.flatMap(([to, { weight }]) => (weight > 0 ? [to] : []));
  const numbers = [...targets, ...served, ...virtual].flatMap((one) => {
    const [, third, last] = /^10\.244\.(\d+)\.(\d+)/.exec(one) ?? [];
    return third === undefined ? [] : [Number(third) * 250 + Number(last) - 1];
  });
  return [...new Set(numbers)].toSorted((a, b) => a - b);
}
