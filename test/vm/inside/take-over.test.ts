// @module-tag all
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { expect, onTestFinished, test } from 'vitest';
import type { ExecResult } from '../../netns/cluster-host.ts';
import { shopServices } from '../../parity/adopting-node.ts';
import { nodeName } from '../../parity/clusters.ts';
import { ObservedKubeProxy } from '../../parity/observed-node.ts';
import { endpointOf, Examiner } from '../../parity/outcomes.ts';
import { needPrograms } from '../../parity/programs.ts';
import { questionsOf } from '../../parity/questions.ts';
import { ipvsSetting } from '../../parity/recorded.ts';

/** The real kube-proxy in mode ipvs, stopped, and `takeOver: kube-proxy`: its virtual servers, sets, addresses and rules, there and back. */

const programs = needPrograms();

test('a stopped kube-proxy in mode ipvs is taken over, and comes back with every entry', {
  timeout: 1_500_000,
}, async () => {
  const proxy = await ObservedKubeProxy.start(programs(), ipvsSetting, shopServices);
  onTestFinished(() => proxy.close());
  const sluiced = sluicedOn(proxy);
  const questions = questionsOf(shopServices);
  /** Which endpoints answer each question. */
  const answers = async (): Promise<readonly (readonly string[])[]> => {
    const asked = await new Examiner(proxy.wired).askWidely(questions);
    return asked.map((counts) => [...new Set([...counts.keys()].map(endpointOf))].toSorted());
  };
  const good = await answers();
  const bundle = await proxy.render();

  await proxy.stopProxy();
  const before = await stateOf(proxy);
  expect(before.join('\n')).toContain('-A -t 10.96.0.11:80 -s rr');
  // A virtual server of another program, at an address of its own.
  await proxy.run('ipvsadm -A -t 203.0.113.9:443 -s wlc');

  const applied = await sluiced('apply', bundle);
  expect(applied).toMatchObject({ exitCode: 0 });
  expect(await answers()).toEqual(good);
  const back = await sluiced('rollback', '0', '--remove-all-services', '--yes');
  expect(back).toMatchObject({ exitCode: 0 });
  const foreign = '-A -t 203.0.113.9:443 -s wlc';
  const after = await stateOf(proxy);
  expect(after).toContain(foreign);
  expect(after.filter((line) => line !== foreign)).toEqual(before);
  expect(await answers()).toEqual(good);
});

/** `sluiced` on the node, with a state directory of its own. */
function sluicedOn(proxy: ObservedKubeProxy): (...args: readonly string[]) => Promise<ExecResult> {
  const folder = mkdtempSync(join(tmpdir(), 'sluiced-take-over-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const config = join(folder, 'sluiced.yaml');
  const values = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluicedConfig',
    node: nodeName,
    state: join(folder, 'state'),
    backend: 'nft',
    takeOver: 'kube-proxy',
    signatures: { policy: 'none' },
  };
  writeFileSync(config, JSON.stringify(values));
  return (...args) =>
    proxy.wired.host.exec([process.execPath, programPath('sluiced'), ...args, '--config', config], {
      timeoutMs: 480_000,
    });
}

/** Virtual servers, entries of sets, addresses and rules, each sorted: kernels list them in the order of their creation. */
async function stateOf(proxy: ObservedKubeProxy): Promise<readonly string[]> {
  const commands = [
    'ipvsadm -Sn',
    'ipset save | grep ^add',
    "ip -o addr show dev kube-ipvs0 | grep -oE 'inet6? [^ ]+'",
    'iptables-nft-save | grep -v ^#',
    'ip6tables-nft-save | grep -v ^#',
  ];
  const texts = await Promise.all(commands.map((command) => proxy.run(`${command} || true`)));
  const withoutCounts = (line: string): string => line.replace(/ \[\d+:\d+\]$/, '').trim();
  return texts.flatMap((text) => text.split('\n').map(withoutCounts).filter(Boolean).toSorted());
}
