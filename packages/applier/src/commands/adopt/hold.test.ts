// @module-tag quick
import { KernelError } from '../../ports/failure.ts';
import { expect, test } from 'vitest';
import type { Adoption, Hold, KubeProxy } from '../../ports/adoption.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { explained, mustBeHoldable } from './adopt.ts';

const unit: Hold = { kind: 'unit', unit: 'kube-proxy.service' };
const manifest: Hold = { kind: 'manifest', manifest: '/etc/kubernetes/manifests/kube-proxy.yaml' };
const begunWith = (hold: Hold): Adoption => ({ goal: 'sluice', hold, isStored: false });
const willing = { refuses: async () => undefined };

test.each<[string, Hold, Hold | undefined]>([
  ['the first time', unit, undefined],
  ['again', unit, unit],
  ['after the operator was to stop kube-proxy', unit, { kind: 'operator' }],
])('a move goes on: %s', async (_title, hold, begun) => {
  await expect(mustBeHoldable(hold, begun && begunWith(begun), willing)).resolves.toBeUndefined();
});

test.each<[string, Hold]>([
  ['--daemonset', { kind: 'operator' }],
  ['another unit', { kind: 'unit', unit: 'other.service' }],
  ['a unit', unit],
])('a hidden manifest is not forgotten: the move does not go on with %s', async (_title, hold) => {
  await expect(mustBeHoldable(hold, begunWith(manifest), willing)).rejects.toMatchObject({
    message: expect.stringContaining('--manifest /etc/kubernetes/manifests/kube-proxy.yaml'),
    exitCode: exitCodes.refused,
  });
});

test('what does not exist is refused before anything is touched', async () => {
  const refuses = async () => 'systemd knows no unit kube-proxy.service';
  await expect(mustBeHoldable(unit, undefined, { refuses })).rejects.toMatchObject({
    problems: [{ code: 'NODE_CANNOT_ADOPT', message: expect.stringContaining('systemd knows no unit') }],
  });
});

test('a kube-proxy that does not stop or may not return is told with what to do', async () => {
  const fails = async (): Promise<never> => {
    throw new KernelError('systemctl stop kube-proxy.service', 'timed out', 'hung');
  };
  const kubeProxy: KubeProxy = explained({ running: () => [], ...willing, hold: fails, release: fails });
  for (const calls of [kubeProxy.hold(unit), kubeProxy.release(unit)])
    await expect(calls).rejects.toMatchObject({
      exitCode: exitCodes.different,
      problems: [{ code: 'NODE_CANNOT_ADOPT', message: expect.stringContaining('timed out') }],
    });
});
