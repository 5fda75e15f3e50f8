// @module-tag all
import { execaSync } from 'execa';
import { expect, test } from 'vitest';

/** What the guest is for: things that the machine's own kernel may lack. */

const sh = (script: string): string => execaSync('unshare', ['--net', 'sh', '-ec', script]).stdout;

/** A pod in a namespace of its own, behind a node that is the namespace of the script. */
const pod = (name: string, address: string, gateway: string): string => `
ip netns add ${name}
ip link add ${name} type veth peer name eth0 netns ${name}
ip addr add ${gateway} dev ${name} nodad 2>/dev/null || ip addr add ${gateway} dev ${name}
ip link set ${name} up
ip -n ${name} addr add ${address} dev eth0 nodad
ip -n ${name} link set eth0 up
ip -n ${name} link set lo up
`;

test.each([
  { family: 'ipv4', vip: '10.96.0.10', server: '10.244.1.5', gateway: '10.244.1.1', bits: 24, show: '10.244.1.5:8080' },
  {
    family: 'ipv6',
    vip: 'fd00:96::10',
    server: 'fd00:244::5',
    gateway: 'fd00:244::1',
    bits: 64,
    show: '[fd00:244::5]:8080',
  },
])('$family: a connection to a virtual server reaches its real server', ({ vip, server, gateway, bits, show }) => {
  const name = `t${bits}`;
  const at = vip.includes(':') ? `[${vip}]:80` : `${vip}:80`;
  const out = sh(`
trap 'ip netns delete ${name}' EXIT
ip link set lo up
${pod(name, `${server}/${bits}`, `${gateway}/${bits}`)}
ip -n ${name} route add default via ${gateway}
ipvsadm -Ln >&2 # the kernel loads ip_vs, and with it its sysctls
sysctl -qw net.ipv4.vs.conntrack=1
ip link add kube-ipvs0 type dummy
ip addr add ${vip}/${bits === 24 ? 32 : 128} dev kube-ipvs0
ipvsadm -A -t ${at} -s rr
ipvsadm -a -t ${at} -r ${show} -m -w 1
ip netns exec ${name} node -e 'require("net").createServer((s) => s.end("pod")).listen(8080, "::")' &
server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do ip netns exec ${name} ss -ltn | grep -q 8080 && break; sleep 0.5; done
node -e 'require("net").connect(80, "${vip}").on("data", (d) => process.stdout.write(d))'
kill $server`);
  expect(out).toBe('pod');
});

test.each(['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'sh', 'dh', 'sed', 'nq', 'mh'])(
  'scheduler %s is there',
  (scheduler) => {
    expect(sh(`ipvsadm -A -t 192.0.2.1:80 -s ${scheduler} && ipvsadm -Sn`)).toContain(`-s ${scheduler}`);
  },
);

test('conntrack entries, sets and both rule stores are there', () => {
  expect(sh('ipset create s hash:ip,port && ipset add s 192.0.2.1,tcp:80 && ipset list s')).toContain(
    '192.0.2.1,tcp:80',
  );
  expect(sh('iptables-nft -A INPUT -m conntrack --ctstate NEW && conntrack -L 2>&1')).toContain('conntrack');
  expect(sh('iptables-legacy -t nat -N X && iptables-legacy-save -t nat')).toContain(':X ');
});
