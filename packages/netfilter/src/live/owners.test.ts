import { expect, test } from 'vitest';
import type { RuleHit } from '../packet/packet.ts';
import { ownerOf, ownerOfPolicy } from './owners.ts';

const iptables = (rule: string, table: RuleHit['table'] = 'filter'): RuleHit => ({
  table,
  chain: / ?-A (\S+)/.exec(rule)?.[1] ?? '',
  rule,
  owner: 'foreign',
});

test.each([
  ['Calico', '-A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD'],
  ['Calico', '-A cali-from-wl-dispatch -m comment --comment "cali:x" -m comment --comment "Unknown interface" -j DROP'],
  ['Calico', '-A felix-FORWARD -j DROP'],
  ['Cilium', '-A FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD'],
  ['Cilium', '-A CILIUM_FORWARD -o cilium_host -m comment --comment "cilium: any->cluster on cilium_host" -j ACCEPT'],
  ['Cilium', '-A OLD_CILIUM_FORWARD -j ACCEPT'],
  ['kube-router', '-A FORWARD -d 10.244.1.5/32 -j KUBE-POD-FW-DPVJLDP5Q6FQVPPD'],
  ['kube-router', '-A KUBE-ROUTER-FORWARD -m mark --mark 0x20000/0x20000 -j ACCEPT'],
  ['kube-router', '-A KUBE-NWPLCY-DEFAULT -j MARK --set-xmark 0x10000/0x10000'],
  ['Docker', '-A FORWARD -j DOCKER-USER'],
  ['Docker', '-A FORWARD -i docker0 ! -o docker0 -j ACCEPT'],
  ['Docker', '-A FORWARD -o br-0123456789ab -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
  ['Docker', '-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP'],
  ['firewalld', '-A FORWARD -j FORWARD_IN_ZONES'],
  ['firewalld', '-A IN_public_allow -p tcp -m tcp --dport 22 -m conntrack --ctstate NEW,UNTRACKED -j ACCEPT'],
  ['ufw', '-A INPUT -j ufw-before-input'],
  ['ufw', '-A ufw6-user-input -p tcp -m tcp --dport 22 -j ACCEPT'],
  ['NodeLocal DNSCache', '-A OUTPUT -p tcp -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j CT --notrack'],
  ['Istio', '-A PREROUTING -p tcp -j ISTIO_INBOUND'],
  ['EKS (aws-node)', '-A PREROUTING -i eni+ -m comment --comment "AWS, outbound connections" -j AWS-CONNMARK-CHAIN-0'],
  ['EKS (aws-node)', '-A PREROUTING -m comment --comment "AWS, CONNMARK" -j CONNMARK --restore-mark --nfmask 0x80'],
  ['Antrea', '-A FORWARD -m comment --comment "Antrea: jump to Antrea forwarding rules" -j ANTREA-FORWARD'],
  ['Flannel', '-A FORWARD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT'],
  ['Flannel', '-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD'],
  ['Weave Net', '-A FORWARD -o weave -j WEAVE-NPC'],
  ['the CNI plugins', '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT'],
  ['the kubelet', '-A INPUT -j KUBE-FIREWALL'],
  ['a reverse path filter', '-A PREROUTING -m rpfilter --validmark --invert -j DROP'],
])('knows a rule of %s: %s', (name, rule) => {
  expect(ownerOf(iptables(rule))?.name).toBe(name);
});

test.each([
  '-A INPUT -s 10.0.0.0/8 -j DROP',
  '-A FORWARD -i dockerish -j DROP',
  '-A FORWARD -i br-lan -j DROP',
  '-A IN_office -j DROP',
  '-A FORWARD -m comment --comment "not cali: drop" -j DROP',
  '-A FORWARD -m comment --comment "moved from -j cali-FORWARD" -j DROP',
  '-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-X',
  '-A KUBE-FIREWALL-OF-OURS -j DROP',
])('knows no owner of %s', (rule) => {
  expect(ownerOf(iptables(rule))).toBeUndefined();
});

test.each([
  ['firewalld', 'firewalld filter_FORWARD', 'reject with icmpx admin-prohibited'],
  ['Calico', 'calico filter-cali-FORWARD', 'drop'],
  ['Docker', 'docker-bridges filter-FORWARD', 'drop'],
  ['the CNI plugins', 'cni_hostport hostports', 'dnat to 10.244.1.7:80'],
  [undefined, 'own calico', 'drop'],
  [undefined, 'fw input', 'comment "firewalld" drop'],
])('knows a table of nftables: %s', (name, chain, rule) => {
  expect(ownerOf({ table: 'nftables', chain, rule })?.name).toBe(name);
});

test('finds who sets a policy by the rules beside it', () => {
  const docker = iptables('-A FORWARD -o docker0 -j DOCKER');
  const calico = iptables('-A FORWARD -j cali-FORWARD');
  expect(ownerOfPolicy([calico, docker])?.name).toBe('Docker');
  expect(ownerOfPolicy([calico, iptables('-A FORWARD -i eth1 -j ACCEPT')])).toBeUndefined();
});
