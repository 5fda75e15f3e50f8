// @module-tag test
import { chmodSync, copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { reaches } from '@sluice/testing';
import { beforeEach, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { SluicedNode, webIn } from '../netns/sluiced-node.ts';
import { newerNft } from './newer.ts';

/** What mode nftables needs and does not find is refused before anything is touched, with a message that names the way out. */

beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));

interface Refusal {
  readonly title: string;
  /** The body of a shell script in place of nft, which has the real one as `$real`. */
  readonly nft?: string;
  /** nft is a file that cannot be run. */
  readonly isMissing?: true;
  /** Text that a newer nft writes first; without it the machine's own. */
  readonly newer?: string;
  readonly own?: string;
  /** Changes a file of the bundle. */
  readonly file?: readonly [path: string, change: (text: string) => string];
  readonly code: string;
  readonly says: readonly string[];
}

const nodeProblem = 'Cannot apply a profile in mode nftables: ';
const web = 'profiles/default/services/shop/web.nft';

const refusals: readonly Refusal[] = [
  {
    title: 'a missing nft',
    isMissing: true,
    code: 'NODE_TOOL_MISSING',
    says: [`${nodeProblem}nft is not installed`, 'Install the package nftables'],
  },
  {
    title: 'an nft that crashes',
    nft: 'kill -SEGV $$',
    code: 'NODE_TOOL_MISSING',
    says: [
      `${nodeProblem}/usr/sbin/nft crashed (the tool was killed by SIGSEGV): a newer nft writes in this network namespace`,
      'Install an nft that is at least as new as the newest that writes here, also in containers',
    ],
  },
  {
    title: 'an nft that aborts',
    nft: 'case "$*" in *-f*) kill -ABRT $$;; *) exec "$real" "$@";; esac',
    code: 'NODE_TOOL_MISSING',
    says: [`${nodeProblem}/usr/sbin/nft crashed (the tool was killed by SIGABRT)`],
  },
  {
    title: 'a kernel without maps of concatenations',
    nft: 'case "$*" in *-f*) cat >/dev/null; echo "Error: Could not process rule: Operation not supported" >&2; exit 1;; *) exec "$real" "$@";; esac',
    code: 'NODE_TOOL_MISSING',
    says: [
      `${nodeProblem}/usr/sbin/nft or the kernel does not take its table: exit code 1: "Error: Could not process rule: Operation not supported"`,
      'Mode nftables is tested with Linux 6.1, 6.12 and 6.18, and with nft 1.0.6 and 1.1.3',
    ],
  },
  {
    title: 'a kernel that refuses a single rule of the table',
    nft: 'case "$*" in *-f*) text=$(cat); case $text in *jhash*) echo "Error: Could not process rule: Operation not supported" >&2; exit 1;; esac; echo "$text" | "$real" "$@";; *) exec "$real" "$@";; esac',
    code: 'NODE_TOOL_MISSING',
    says: [
      `${nodeProblem}/usr/sbin/nft or the kernel does not take its table: exit code 1: "Error: Could not process rule`,
    ],
  },
  {
    title: 'a table of the same name that is foreign',
    own: 'table inet sluice {\n  chain other {\n    accept\n  }\n}\n',
    code: 'NODE_CHAINS_NOT_OURS',
    says: [
      'Cannot apply the bundle: there is a table inet sluice, and it was not made with this state directory',
      'If the state directory was lost, run `sluiced recover`',
    ],
  },
  {
    title: 'a bundle with an unknown table',
    file: ['profiles/default/base/first.nft', () => 'table inet sluice {\n}\n'],
    code: 'RULE_REFUSED',
    says: [
      'profiles/default/base/first.nft:1',
      'this version knows no such table; upgrade sluiced first, or render again',
    ],
  },
  {
    title: 'a bundle with another command',
    file: [web, (text) => `${text}flush ruleset\n`],
    code: 'RULE_REFUSED',
    says: [web, 'a service file has no such line'],
  },
  {
    title: 'a bundle with a second command in an element',
    file: [web, (text) => text.replace(' }\n', ' }; flush ruleset\n')],
    code: 'RULE_REFUSED',
    says: [web],
  },
  {
    title: 'a bundle whose lines contradict each other',
    file: [web, (text) => text.replaceAll(/^add element inet sluice (?:svc|none)[46] .*\n/gm, '')],
    code: 'RULE_REFUSED',
    says: [web, 'has endpoints, but is not in svc'],
  },
  ...(reaches('all')
    ? [
        {
          title: 'a set of a newer nft in a foreign table, at which nft 1.0.6 crashes',
          newer: 'table inet other {\n  set some { type ipv4_addr; elements = { 192.0.2.1 } }\n}\n',
          code: 'NODE_TOOL_MISSING',
          says: [
            `${nodeProblem}/usr/sbin/nft crashed (the tool was killed by SIGSEGV): a newer nft writes in this network namespace; install an nft of at least that version`,
          ],
        },
      ]
    : []),
];

test.for(refusals)('refuses $title, and touches nothing', { timeout: 120_000 }, async (refusal, context) => {
  const newer = refusal.newer === undefined ? undefined : newerNft();
  if (newer && 'lack' in newer) context.skip(newer.lack);
  const node = await SluicedNode.make();
  context.onTestFinished(() => node.remove());
  node.writeConfig('nft', 'layout: tree\n');
  const put = (files: ReadonlyMap<string, string>): void => {
    rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
    writeBundle(`${node.directory}/rendered`, files);
  };
  put(webIn('iptables', 1, 2));
  expect(await node.apply()).toMatchObject({ exitCode: 0, stderr: '' });
  if (refusal.own !== undefined) await node.tool(['nft', '-f', '-'], refusal.own);
  if (newer && 'path' in newer) await node.tool([newer.path, '-f', '-'], refusal.newer);
  const held = async (): Promise<readonly unknown[]> => [
    await node.rules('nft'),
    await node.tool(['sh', '-c', 'nft list table inet sluice 2>/dev/null || true']),
    node.journal()?.current,
  ];
  const before = await held();
  const files = new Map(webIn('nftables', 1, 3));
  const [path = '', change] = refusal.file ?? [];
  if (change) files.set(path, change(files.get(path) ?? ''));
  put(files);
  const prepare = replacement(node.directory, refusal);
  const { exitCode, stdout, stderr } = await node.sluicedAfter(prepare, 'apply', `${node.directory}/rendered`);
  expect([exitCode, stdout + stderr]).toEqual([3, expect.stringContaining(refusal.code)]);
  for (const text of refusal.says) expect(stdout + stderr).toContain(text);
  expect(await held()).toEqual(before);
  if (refusal.code !== 'NODE_TOOL_MISSING') return;
  const preflight = await node.sluicedAfter(prepare, 'preflight', `${node.directory}/rendered`);
  expect(preflight.exitCode).not.toBe(0);
  expect(preflight.stdout + preflight.stderr).toContain(refusal.says[0]?.replace(nodeProblem, ''));
});

/** Shell text that puts another program in place of nft. */
function replacement(directory: string, { nft, isMissing }: Refusal): string {
  if (nft === undefined && isMissing === undefined) return '';
  const stub = `${directory}/stub`;
  copyFileSync('/usr/sbin/nft', `${directory}/real`);
  writeFileSync(stub, `#!/bin/sh\nreal=${directory}/real\n${nft ?? ''}\n`);
  chmodSync(stub, isMissing ? 0o644 : 0o755);
  return `mount --bind ${stub} /usr/sbin/nft &&`;
}
