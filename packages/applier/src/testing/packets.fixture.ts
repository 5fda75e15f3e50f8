import { emptyProgram, LiveTables, type Packet, readIptables, trace, traceNotes, type World } from '@sluice/netfilter';
import type { FakeKernel } from '../kernel/fake/fake.fixture.ts';
import { servedBy } from './nftables.fixture.ts';

/** For tests only: where a packet of a pod to port 80 of an address ends on a fake kernel: endpoints, sorted, or `pass`, `reject` … */
export async function endsOf(kernel: FakeKernel, destination: string): Promise<readonly string[]> {
  const table = kernel.nft.list();
  if (table) {
    const served = servedBy(table, `${destination} . tcp . 80`).map((one) => one.replace(' . ', ':'));
    return served.length > 0 ? served.toSorted() : ['pass'];
  }
  const { servers, sets, bound } = await kernel.ipvs.observe();
  const addresses = { ipv4: [...(bound?.ipv4 ?? [])], ipv6: [...(bound?.ipv6 ?? [])] };
  const packet: Packet = { family: 'ipv4', source: '10.244.9.9', destination, protocol: 'tcp', port: 80, in: 'pod0' };
  const lines = kernel
    .save('ipv4')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  const live = new LiveTables('ipv4', readIptables({ store: 'nft', family: 'ipv4', lines }, new Map()));
  const world: World = {
    localAddresses: ['192.0.2.11', ...addresses.ipv4],
    ...(servers.size > 0 ? { ipvs: { virtualServers: servers, sets, addresses } } : {}),
    live: { tables: live, notes: traceNotes(), outOf: () => undefined },
  };
  return trace(emptyProgram, packet, world)
    .map(({ verdict, to }) => to ?? verdict)
    .toSorted();
}
