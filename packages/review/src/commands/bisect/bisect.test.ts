import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey, signBy } from '@sluice/testing';
import { type BundleFiles, bundleLimits, printReceipt, receiptFile, summariseNode } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BundleHistory, type HistoryStep } from '@sluice/renderer/load/git/history.ts';
import { readTree } from '@sluice/renderer/load/tree.ts';
import { type Ran, sluice } from '../../../../sluice/src/in-process.fixture.ts';
import { SampleRepository } from '../../../../renderer/src/commands/bundle/repository.fixture.ts';

let repository: SampleRepository;
beforeEach(() => {
  repository = new SampleRepository();
});
afterEach(() => repository.destroy());

const packet = ['--node', 'node-1', '--from', '10.244.1.200', '--to', '10.96.0.10:80/tcp'];
const bisect = (from: string, ...options: readonly string[]): Promise<Ran> =>
  sluice('bisect', '--from', from, ...options, '--', 'trace', repository.bundle, ...packet);

/** Commits that leave the packet as it is. */
function others(count: number): void {
  for (let at = 0; at < count; at++) {
    repository.write(`rendered/.gitignore`, `!*\n/.sluice-*\n${'# \n'.repeat(at + 1)}`);
    repository.commit(`other ${at}`);
  }
}

describe('sluice bisect', () => {
  test.each([1, 6])('finds commit %i of 7', async (planted) => {
    repository.endpoints(5, 6);
    const first = repository.commit();
    others(planted - 1);
    repository.endpoints();
    const guilty = repository.commit('take the endpoints');
    others(7 - planted);
    const found = await bisect(first);
    expect(found).toMatchObject({ status: 0, stderr: '' });
    expect(found.stdout).toContain(`changed with\ncommit ${guilty.slice(0, 12)} (2027-01-15 08:`);
    expect(found.stdout).toContain('UTC, Ada): take the endpoints\n');
    expect(found.stdout).toMatch(
      /before, in [0-9a-f]{12}:\n {4}50 % to 10.244.1.5:8080\n {4}50 % to 10.244.1.6:8080\n/,
    );
    expect(found.stdout).toMatch(/after, in [0-9a-f]{12}:\n {4}100 % REJECT\n/);
    expect(found.stdout).toContain('    profiles/default/services/shop/web.iptables\n');
    expect(Number(/(\d+) steps? for 7 commits/.exec(found.stdout)?.[1])).toBeLessThanOrEqual(3);
  });

  test('a history with too little memory for two bundles reads each of them again', () => {
    const commits = [[5, 6], [7]].map((last) => {
      repository.endpoints(...last);
      return repository.commit();
    });
    const history = new BundleHistory(repository.bundle, 1);
    const webOf = (commit: string): unknown => {
      const files = history.filesOf('node-1', history.step(commit) as HistoryStep) as BundleFiles;
      return files.get('profiles/default/services/shop/web.iptables')?.match(/^# endpoint .*$/gm)?.length;
    };
    expect([...commits, ...commits].map(webOf)).toEqual([2, 1, 2, 1]);
  });

  test('leaves out commits that do not change the bundle', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    for (let at = 0; at < 3; at++) {
      repository.write('README.md', `${at}`);
      repository.commit();
    }
    repository.endpoints();
    const guilty = repository.commit();
    const found = JSON.parse((await bisect(first, '-o', 'json')).stdout) as Record<string, unknown>;
    expect(found).toMatchObject({
      kind: 'Bisection',
      after: { commit: { id: guilty }, ends: [{ verdict: 'reject' }] },
      commits: 1,
      steps: 0,
    });
  });

  test.each([
    [
      'a file that is not part of a bundle',
      () => repository.write('rendered/notes.txt', 'x\n'),
      'not part of a bundle',
    ],
    ['a hostile name', () => repository.write('rendered/a\n\u001B[2J/x', 'x\n'), 'not part of a bundle'],
    ['a link', () => repository.link('rendered/quarantine.yaml', '/etc/passwd'), 'not part of a bundle'],
    [
      'a submodule',
      () => repository.git('update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},rendered/nodes/node-3`),
      'not part of a bundle',
    ],
    [
      'a giant',
      () =>
        repository.write(
          'rendered/profiles/default/services/shop/web.iptables',
          'x'.repeat(bundleLimits.fileBytesMax + 1),
        ),
      `more than ${bundleLimits.fileBytesMax}`,
    ],
    [
      'rules of no kind',
      () => repository.write('rendered/profiles/default/services/shop/web.iptables', '*nat\n-A X -j EVIL\n'),
      '',
    ],
    ['no node of that name', () => repository.remove('rendered/nodes/node-1'), 'has no nodes/node-1/node.yaml'],
    ['no bundle', () => repository.remove('rendered'), 'no such directory'],
  ] as const)('skips a commit with %s', async (title, spoil, why) => {
    repository.endpoints(5);
    const first = repository.commit();
    spoil();
    const spoilt = repository.commit('spoilt', title === 'a submodule');
    repository.endpoints();
    repository.commit('mended');
    const found = await bisect(first);
    expect(found).toMatchObject({ status: 1, stderr: '' });
    expect(found.stdout).toContain(`skipped 1 commit:\n    ${spoilt.slice(0, 12)}: `);
    expect(found.stdout).toContain(why);
    expect(found.stdout).not.toContain('\u001B');
  });

  test('names all commits that may have made the change, where nothing can be said about some', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    repository.endpoints();
    repository.write('rendered/notes.txt', 'x\n');
    const spoilt = repository.commit('spoilt');
    repository.remove('rendered/notes.txt');
    const mended = repository.commit('mended');
    others(3);
    const found = await bisect(first);
    expect(found.status).toBe(1);
    expect(found.stdout).toContain('changed with one of 2 commits:');
    expect(found.stdout).toContain(`    commit ${spoilt.slice(0, 12)} `);
    expect(found.stdout).toContain(`    commit ${mended.slice(0, 12)} `);
    expect(found.stdout).toContain(`skipped 1 commit:\n    ${spoilt.slice(0, 12)}: Cannot read the bundle`);
  });

  test('takes a merge for one commit, and says how to look into its branch', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    repository.git('checkout', '-q', '-b', 'topic');
    others(2);
    repository.endpoints();
    const guilty = repository.commit('guilty');
    repository.git('checkout', '-q', 'main');
    repository.write('README.md', 'x');
    const base = repository.commit('elsewhere');
    repository.git('merge', '-q', '--no-ff', '-m', 'merge topic', 'topic');
    const found = await bisect(first);
    expect(found.stdout).toContain('merge topic');
    expect(found.stdout).toContain(`--from ${first.slice(0, 12)} --to ${guilty.slice(0, 12)}\n`);
    expect((await bisect(first, '--to', 'topic')).stdout).toContain(`commit ${guilty.slice(0, 12)} `);
    expect(await bisect(guilty)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('is not before'),
    });
    expect(base).toHaveLength(40);
  });

  test('says that there are several changes', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    repository.endpoints(6);
    repository.commit();
    repository.endpoints(7);
    repository.commit();
    repository.endpoints();
    const last = repository.commit();
    const found = await bisect(first);
    expect(found.stdout).toContain(`commit ${last.slice(0, 12)} `);
    expect(found.stdout).toContain('this is one of several changes');
    const verdict = await bisect(first, '--ignore-endpoints');
    expect(verdict.stdout).not.toContain('several');
  });

  test('a Service that is added is a change', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    repository.remove('rendered/profiles/default/services/shop/web.iptables');
    repository.commit('remove it');
    const found = await sluice(
      'bisect',
      '--from',
      first,
      '--',
      'trace',
      repository.bundle,
      '--node',
      'node-1',
      '--from',
      'node',
      '--to',
      'shop/web:http',
    );
    expect(found.stdout).toContain('there is no such Service');
  });

  test('refuses ends between which nothing changes', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    others(3);
    expect(await bisect(first)).toMatchObject({
      status: 2,
      stdout: '',
      stderr: expect.stringContaining('the packet is treated alike'),
    });
    const node = await sluice('bisect', '--from', first, '--', 'trace', repository.bundle, ...packet.with(1, 'node-9'));
    expect(node).toMatchObject({ status: 2, stderr: expect.stringContaining('[BUNDLE_UNKNOWN_NODE]') });
  });

  test('says that a clone is shallow', async () => {
    repository.endpoints(5);
    const first = repository.commit();
    repository.endpoints(6);
    repository.commit();
    repository.endpoints();
    repository.commit();
    const clone = join(repository.root, 'clone');
    repository.git('clone', '-q', '--depth', '2', `file://${repository.root}`, clone);
    const run = (from: string): Promise<Ran> =>
      sluice('bisect', '--from', from, '--', 'trace', join(clone, 'rendered'), ...packet);
    for (const from of [first, 'HEAD~2', '2020-01-01'])
      expect(await run(from)).toMatchObject({
        status: 2,
        stderr: expect.stringMatching(/this clone is shallow.*\n.*git fetch --unshallow/),
      });
    expect((await run('HEAD~1')).status).toBe(0);
  });

  test('refuses what is no revision, and runs no program', async () => {
    repository.endpoints(5);
    repository.commit();
    const options = ['--upload-pack=touch hit', '-x', '--output=hit', '--all'];
    const texts = ['$(touch hit)', 'HEAD..HEAD', 'HEAD\nHEAD', 'HEAD:rendered', 'main^{tree}', '2026-02-30', 'nothing'];
    const refused = { status: 2, stdout: '', stderr: expect.stringContaining('[INPUT_UNREADABLE]') };
    for (const revision of [...options, ...texts]) {
      const at = ['trace', repository.bundle, ...packet];
      expect({
        revision,
        from: await bisect(revision),
        to: await bisect('HEAD', `--to=${revision}`),
        branch: await sluice(...at, '--at', '2026-01-01', `--branch=${revision}`),
        at: await sluice(...at, `--at=${revision}`),
        before: await sluice('at', ...at.slice(2), '--', revision, ...at.slice(0, 2)),
      }).toEqual({ revision, from: refused, to: refused, branch: refused, at: refused, before: refused });
    }
    expect(existsSync(join(repository.root, 'hit')) || existsSync('hit')).toBe(false);
  });

  test.each([
    [['show'], 'it takes trace'],
    [['trace', '--node', 'node-1'], 'required option'],
    [['trace', ...packet, '-o', 'json'], "unknown option '-o'"],
    [['trace', 'a', 'b', ...packet], 'too many arguments'],
    [['trace', ...packet.with(5, 'x')], 'Cannot use --to'],
  ])('refuses the words %j', async (words, why) => {
    const made = await sluice('bisect', '--from', 'HEAD', '--', ...words);
    expect(made).toMatchObject({ status: 2, stderr: expect.stringContaining(why) });
  });
});

describe('sluice trace --at', () => {
  const at = (when: string, ...options: readonly string[]): Promise<Ran> =>
    sluice('trace', repository.bundle, '--at', when, ...packet, ...options);

  test('is what `sluice at` was', async () => {
    repository.endpoints(5);
    const commit = repository.commit();
    const before = await sluice('at', commit, ...packet.slice(0, 2), 'trace', repository.bundle, ...packet.slice(2));
    expect(before).toEqual({ ...(await at(commit)), status: 0 });
  });

  test.each([
    [['--branch', 'main'], '--branch "main": there is no --at'],
    [['--receipts', 'x'], '--receipts "x": there is no --at'],
    [['--at', 'HEAD', '--live', 'x'], 'cannot be used with'],
  ])('refuses %j', async (options, why) => {
    const made = await sluice('trace', repository.bundle, ...packet, ...options);
    expect(made).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining(why) });
  });

  test('traces in the bundle of a commit, and of a time', async () => {
    repository.endpoints(5);
    const first = repository.commit('the first \u001B[31mrules');
    repository.endpoints();
    const second = repository.commit('the second rules');
    repository.endpoints(7);
    expect((await at(first)).stdout).toMatch(
      new RegExp(
        `^commit ${first.slice(0, 12)} \\(2027-01-15 08:01:00 UTC, Ada\\): the first {2}\\[31mrules\n.*node-1.*\n[^]*to 10.244.1.5:8080`,
      ),
    );
    const times = [
      ['2027-01-15T08:01:00Z', first],
      ['2027-01-15T09:01:59+01:00', first],
      ['2027-01-15T08:02Z', second],
      ['2027-01-16', second],
    ] as const;
    for (const [time, commit] of times) {
      const made = JSON.parse((await at(time, '-o', 'json')).stdout) as object;
      expect(made).toMatchObject({ kind: 'TraceAt', commit: { id: commit }, trace: { node: 'node-1' } });
    }
    expect(await at('2027-01-15')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('no commit of HEAD is as old'),
    });
    expect(await at('2027-01-15T25:00:00Z')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('nor a time'),
    });
  });

  test('reads a bundle that is no longer in the work tree', async () => {
    repository.endpoints(5);
    repository.commit();
    repository.remove('rendered');
    repository.commit();
    const before = process.cwd();
    process.chdir(repository.root);
    try {
      const made = await sluice('trace', '--at', 'HEAD~1', ...packet);
      expect(made).toMatchObject({ status: 0, stdout: expect.stringContaining('to 10.244.1.5:8080') });
      expect(await sluice('trace', '--at', 'HEAD', ...packet)).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('the commit has no such directory'),
      });
    } finally {
      process.chdir(before);
    }
  });

  test('says with receipts when the node ran these rules', async () => {
    const place = (name: string): string => join(repository.root, '..', `${repository.root.split('/').at(-1)}-${name}`);
    const [key, allowed, receipts] = [place('key'), place('allowed'), place('receipts')];
    writeFileSync(allowed, `node-1 namespaces="sluice-receipt" ${makeKey(key)}\n`);
    mkdirSync(receipts);
    const versionNow = (): string => {
      const made = summariseNode(readTree(repository.bundle) as ReadonlyMap<string, string>, 'node-1');
      return 'version' in made ? made.version : '';
    };
    const say = (number: number, seconds: number, version: string, signed = key): void => {
      const instant = `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
      const text = printReceipt({
        node: 'node-1',
        number,
        at: instant,
        outcome: 'confirmed',
        release: null,
        standing: { generation: number, version },
        codes: [],
        because: null,
        probes: [],
        sluiced: '0.1.0',
      });
      const path = join(receipts, receiptFile({ node: 'node-1', number }));
      writeFileSync(path, text);
      writeFileSync(`${path}.sig`, signBy(signed, 'sluice-receipt', text));
    };
    repository.endpoints(5);
    const first = repository.commit();
    const old = versionNow();
    repository.endpoints();
    const second = repository.commit();
    const updated = versionNow();
    const given = ['--receipts', receipts, '--allowed-receipts', allowed];
    say(1, repository.secondsOf(1) + 5, old);
    expect((await at(first, ...given)).stdout).toContain(
      `node-1 ran these rules, version ${old}: first in its receipt of 2027-01-15T08:01:05Z (receipt 1, confirmed) and ran them in its newest receipt`,
    );
    expect((await bisect(first, ...given)).stdout).toContain(
      `no receipt says that node-1 ran these rules, version ${updated}: at that time it ran version ${old}`,
    );
    say(2, repository.secondsOf(2) + 90, updated);
    expect((await at(first, ...given)).stdout).toContain(
      `; at 2027-01-15T08:03:30Z (receipt 2, confirmed) it ran version ${updated}`,
    );
    expect((await bisect(first, ...given)).stdout).toContain(
      `node-1 ran these rules, version ${updated}: first in its receipt of 2027-01-15T08:03:30Z (receipt 2, confirmed)`,
    );
    makeKey(`${key}2`);
    say(2, repository.secondsOf(2) + 90, updated, `${key}2`);
    expect((await at(second, ...given)).stdout, 'a receipt with a foreign signature').toContain('no receipt says');
    expect(await at(second, '--receipts', receipts)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--allowed-receipts'),
    });
  });
});
