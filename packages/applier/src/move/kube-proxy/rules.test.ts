import { basename } from 'node:path';
import { expect, test } from 'vitest';
import type { Run } from '../../kernel/command.ts';
import { rulesElsewhere } from './rules.ts';

/** A node whose tools print these texts, by their command lines. */
const printing =
  (texts: Readonly<Record<string, string>>): Run =>
  async ({ file, args }) => ({
    exitCode: 0,
    stdout: texts[`${basename(file)} ${args.join(' ')}`] ?? '',
    stderr: '',
    why: '',
  });

const half = ':KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n';
const whole = `${half}-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n`;
const table = (packets: number, handle: number, expires: number): string => `table ip kube-proxy { # handle 1
	set affinity { # handle 2
		elements = { 10.0.0.1 expires ${expires}s }
	}
	chain services { # handle 3
		counter packets ${packets} bytes ${packets * 60} accept # handle ${handle}
	}
}
`;
const iptables = 'iptables-legacy-save -t nat';
const nft = 'nft -a list table ip kube-proxy';

test('a family counts once all rules are there, each on its own', async () => {
  expect(await rulesElsewhere('nft', printing({}))).toEqual({});
  expect(await rulesElsewhere('nft', printing({ [iptables]: half }))).toEqual({});
  expect(Object.keys(await rulesElsewhere('nft', printing({ [iptables]: whole })))).toEqual(['ipv4']);
  expect(Object.keys(await rulesElsewhere('nft', printing({ 'ip6tables-legacy-save -t nat': whole })))).toEqual([
    'ipv6',
  ]);
  expect(Object.keys(await rulesElsewhere('nft', printing({ [nft]: table(0, 4, 9) })))).toEqual(['ipv4']);
});

test('neither traffic nor time is a change, and a rule that is written again is one', async () => {
  const at = async (...values: Parameters<typeof table>) =>
    (await rulesElsewhere('nft', printing({ [nft]: table(...values) }))).ipv4;
  expect(await at(7, 4, 8)).toBe(await at(0, 4, 9));
  expect(await at(0, 5, 9)).not.toBe(await at(0, 4, 9));
});

test.each([
  ['iptables-legacy-save', 'timed out'],
  ['nft', 'the tool was killed by SIGKILL'],
])('%s that is killed is an error, one that fails has nothing', async (tool, why) => {
  const ending =
    (exitCode: number | undefined): Run =>
    async ({ file }) =>
      basename(file) === tool
        ? { exitCode, stdout: exitCode === undefined ? half : '', stderr: '', why }
        : { exitCode: 0, stdout: '', stderr: '', why: '' };
  await expect(rulesElsewhere('nft', ending(undefined))).rejects.toThrow(why);
  expect(await rulesElsewhere('nft', ending(1))).toEqual({});
});
