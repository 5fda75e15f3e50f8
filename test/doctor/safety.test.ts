// @module-tag test
import { existsSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { programPath } from '@sluice/testing';
import { beforeEach, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { until } from '../netns/until.ts';
import { DoctorNode } from './node.ts';
import { draw } from './plan.ts';

/** What a doctor leaves behind: nothing, and with `--live` nothing either. */

beforeEach(needKernel);

const drawn = draw(7, 'safety', ({ mode, layout }) => mode === 'iptables' && layout === 'tree');

/** Everything that a doctor could change: rules, sets, connections of the Service, sysctls, files of sluiced. */
const stateOf = (node: DoctorNode): Promise<string> =>
  node.sh(
    [
      'nft list ruleset',
      '(iptables-legacy-save; ip6tables-legacy-save) | grep -v ^#',
      'sysctl -a 2>/dev/null | grep -E "^net\\.(ipv4\\.conf|netfilter\\.nf_conntrack_(tcp|udp))"',
      `find ${node.directory} -newer ${node.configFile} -printf '%p %s %T@\\n' | sort`,
      `conntrack -L -f ${drawn.family} 2>/dev/null | grep -c 'dport=${drawn.port} ' || true`,
    ].join('\n'),
  );

test('sends and writes nothing without --live', async () => {
  await using node = await DoctorNode.make(drawn, {});
  await node.apply();
  let before = await stateOf(node);
  // Counters of IPv6 count these, too: for a second or two after an address came, and twice each.
  await until('the kernel has reported its multicast groups', async () => {
    const earlier = before;
    await sleep(2_500);
    before = await stateOf(node);
    return before === earlier;
  });
  expect(await node.doctor(node.service)).toMatchObject({ exitCode: 0 });
  expect(await stateOf(node)).toBe(before);
});

test('with --live traces its own packets alone, and leaves no table behind, also if it is killed', {
  timeout: 90_000,
}, async () => {
  await using node = await DoctorNode.make(drawn, {});
  await node.apply();
  const before = await node.sh('nft list tables');
  expect(await node.doctor(node.service, '--live')).toMatchObject({ exitCode: 0 });
  expect(await node.sh('nft list tables')).toBe(before);
  const archive = `${node.directory}/doctor.tar.gz`;
  const running = node.host.start([
    process.execPath,
    programPath('sluiced'),
    'doctor',
    node.service,
    '--live',
    '-c',
    node.configFile,
  ]);
  const rule = await until('it traces', async () => {
    const rules = await node.sh('nft list ruleset');
    return rules.split('\n').find((line) => line.includes('meta nftrace'));
  });
  expect(rule).toMatch(
    new RegExp(`daddr ${drawn.clusterIP} tcp sport \\d+ tcp dport ${drawn.port} meta nftrace set 1`),
  );
  await running.signal('KILL');
  await until('the table is gone', async () => (await node.sh('nft list tables')) === before);
  await running.ended;

  const result = await node.doctor(node.service, '--live', '--bundle', archive);
  expect(result.exitCode).toBe(0);
  const text = gunzipSync(readFileSync(archive)).toString('utf8');
  expect(text).toContain('doctor/facts.json');
  expect(text).toMatch(/trace id [0-9a-f]+ /);
  expect(text).not.toContain(node.service);
  expect(text).not.toContain('node-a');
  expect(statSync(archive).mode & 0o777).toBe(0o600);
  expect((await node.sluiced('doctor', node.service, '--bundle', archive)).exitCode, 'the file exists').toBe(2);
  const target = `${node.directory}/elsewhere`;
  symlinkSync(target, `${node.directory}/link`);
  const linked = await node.sluiced('doctor', node.service, '--bundle', `${node.directory}/link`);
  expect(linked.exitCode, 'the link leads elsewhere').toBe(2);
  expect(existsSync(target)).toBe(false);
});

test('ends beside rules that lead a packet through billions of rules, and blames none of them', {
  timeout: 90_000,
}, async (context) => {
  needBackend(context, 'legacy');
  await using node = await DoctorNode.make(drawn, {});
  await node.apply();
  const chains = Array.from({ length: 30 }, (_, at) => `M${at}`);
  const calls = chains.slice(1).flatMap((next, at) => [`-A M${at} -j ${next}`, `-A M${at} -j ${next}`]);
  // No packet has this mark, and the doctor cannot know that: the kernel never goes in there.
  const first = ['OUTPUT', 'FORWARD'].map((hook) => `-A ${hook} -m mark --mark 0xd0c7 -j M0`);
  const block = Array.from(
    { length: 6_000 },
    (_, at) => `-A FORWARD -s 192.0.2.${at % 256} -p tcp --dport ${at} -j DROP`,
  );
  const table = ['*filter', ...chains.map((name) => `:${name} - [0:0]`), ...calls, ...block, ...first, 'COMMIT', ''];
  const restore = drawn.family === 'ipv4' ? 'iptables-legacy-restore' : 'ip6tables-legacy-restore';
  const text = table.join('\n').replaceAll('192.0.2.', drawn.family === 'ipv4' ? '192.0.2.' : '2001:db8:9::');
  await node.host.run([restore, '--noflush'], { input: text, timeoutMs: 30_000 });
  const { diagnosis, exitCode } = await node.doctor(node.service);
  expect([exitCode, diagnosis.cause]).toEqual([0, null]);
  const chain = `${drawn.family === 'ipv4' ? 'iptables' : 'ip6tables'}-legacy -t filter FORWARD`;
  expect(diagnosis.unread).toEqual([
    { what: 'all foreign rules', because: `there are too many in ${chain}` },
    { what: 'foreign rules to their end', because: expect.stringMatching(/^\d+ of \d+ packets meet/) as string },
  ]);
});
