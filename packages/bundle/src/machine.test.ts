import { expect, test } from 'vitest';
import { hostValues, liberalKey, type Machine } from './machine.ts';

const machine: Machine = {
  kernelRelease: '6.1.0-44-amd64',
  addresses: { ipv4: ['127.0.0.1', '192.0.2.11'], ipv6: ['::1', 'fd00::11'] },
  tcpBeLiberal: false,
};
const wanting = (nodePortAddresses: readonly string[], ...sysctls: readonly string[]) => ({
  profile: { nodePortAddresses },
  sysctls,
});

test.each([
  ['no network: no address', [], []],
  ['those in a network', ['192.0.2.0/24'], ['192.0.2.11']],
  ['loopback, too, where the profile names it', ['127.0.0.0/8', '192.0.2.0/24'], ['127.0.0.1', '192.0.2.11']],
  ['none of the other family', ['fd00::/64'], []],
] as const)('node ports: %s', (_title, networks, expected) => {
  expect(hostValues(wanting(networks), machine, 'ipv4').nodePortAddresses).toEqual(expected);
});

test.each([
  ['the machine decides', false, [], false],
  ['the machine decides', true, [], true],
  ['what the bundle sets counts before what the machine has', false, [`${liberalKey} = 1`], true],
  ['what the bundle sets counts before what the machine has', true, [`${liberalKey} = 0`], false],
  ['a line for this kernel counts', false, [`@kernel=6.0..6.9 ${liberalKey} = 1`], true],
  ['a line for another kernel does not', false, [`@kernel=4.1..5.8 ${liberalKey} = 1`], false],
  ['other sysctls do not', true, ['net.ipv4.ip_forward = 1'], true],
] as const)('INVALID packets: %s (%s, %j)', (_title, tcpBeLiberal, lines, expected) => {
  expect(hostValues(wanting([], ...lines), { ...machine, tcpBeLiberal }, 'ipv4').tcpBeLiberal).toBe(expected);
});
