import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type dataPlanes, kernelText } from '../../testing/data-plane.fixture.ts';
import type { Scene } from '../../testing/scene.fixture.ts';

/** The rules of other programs. */
export const foreign = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -i docker0 -j DOCKER
-A DOCKER -j RETURN
-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:CNI-X - [0:0]
-A POSTROUTING -s 10.244.0.0/16 -j CNI-X
-A CNI-X -j RETURN
COMMIT
`;

type Mode = (typeof dataPlanes)[number]['mode'];
export const families = ['ipv4', 'ipv6'];
/** A bundle of each mode. */
export const firstOf = (mode: Mode) =>
  sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3] }, families, mode });
/** Another one: Services with other endpoints, without any, and a new one; and sysctls. */
export const secondOf = (mode: Mode) =>
  sampleBundle({
    services: { 'shop/web': [4, 5], 'shop/cart': [], 'shop/new': [6] },
    families,
    mode,
    sysctls: ['net.ipv4.conf.all.route_localnet = 1', 'net.netfilter.nf_conntrack_max = 131072'],
  });

/** All tables of the kernel. */
export async function everythingIn(node: Scene): Promise<string> {
  const sysctl = await node.kernel.readSysctl('net.ipv4.conf.all.route_localnet');
  return `${kernelText(node.kernel)}${sysctl}`;
}

/** The lines of other programs. */
export function foreignLinesIn(node: Scene): string {
  return node.kernel
    .save('ipv4')
    .split('\n')
    .filter((line) => /DOCKER|CNI-X|docker0|KUBE-FIREWALL/.test(line))
    .join('\n');
}
