// @module-tag quick
import { randomBytes } from 'node:crypto';
import { atTier } from '@sluice/testing';
import { sysctlKeys, sysctlRange } from '@sluice/netfilter';
import { execa, execaSync } from 'execa';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { LinuxKernel } from '../../packages/applier/src/kernel/linux/linux.ts';
import type { Run } from '../../packages/applier/src/kernel/command.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { LinuxSwitch } from '../../packages/applier/src/kernel/switch.ts';
import type { Tunables } from '../../packages/applier/src/kernel/sysctl.ts';
import { type RuleStore, detectTools } from '../../packages/applier/src/kernel/tools.ts';
import { guestStore, isInGuest } from '../in-guest.ts';
import { kernelContract } from './kernel.contract.ts';
import { inPlace, nftOf, nftVersions } from '../nft/newer.ts';
import { nftContract } from './nftables.contract.ts';
import { switchContract } from './switch.contract.ts';
import { needBackend, needKernel } from './privileges.ts';

/** The contract suite on the real kernel, each candidate in a network namespace of its own with a /run of its own. */

/** The contract is the same on both; tier quick runs the one that most nodes have, and a guest, which is slow, has one. */
const backends: readonly RuleStore[] = isInGuest
  ? [guestStore]
  : atTier<readonly RuleStore[]>({ quick: ['nft'], test: ['nft', 'legacy'] });

const prefix = `slt-${process.pid}-${randomBytes(2).toString('hex')}`;
const made: string[] = [];
afterAll(async () => {
  for (const name of made) await execa('ip', ['netns', 'delete', name], { reject: false });
});

async function namespace(): Promise<string> {
  const name = `${prefix}-${made.length}`;
  await execa('ip', ['netns', 'add', name]);
  made.push(name);
  return name;
}

/** Runs every tool inside the namespace. @param prepare shell text to run first */
function runIn(name: string, prepare = ''): Run {
  const run = runChildren();
  const script = `mount -t tmpfs tmpfs /run && ${prepare} exec "$@"`;
  return (command) => {
    const args = ['netns', 'exec', name, 'unshare', '-m', 'sh', '-c', script, 'sh', command.file, ...command.args];
    return run({ ...command, file: '/usr/sbin/ip', args });
  };
}

describe.each(backends)('the %s kernel', (backend) => {
  beforeEach(needKernel);
  beforeEach((context) => needBackend(context, backend));

  kernelContract(backend, async () => {
    const name = await namespace();
    const run = runIn(name);
    const tools = await detectTools(backend, run);
    const kernel = new LinuxKernel(tools, run, procTunablesOf(name), new LinuxSwitch('/usr/sbin/ipset', run));
    return {
      kernel,
      foreign: async (family, text) => {
        const file = tools.families[family]?.restore ?? '';
        const { exitCode, why } = await run({ file, args: ['--noflush'], input: text });
        if (exitCode !== 0) throw new Error(why);
      },
    };
  });
});

describe.each(backends)('the switch, used by rules of %s', (backend) => {
  beforeEach(needKernel);
  beforeEach((context) => needBackend(context, backend));

  switchContract(backend, async () => {
    const name = await namespace();
    const run = runIn(name);
    const switchStates = new LinuxSwitch('/usr/sbin/ipset', run);
    return { kernel: new LinuxKernel(await detectTools(backend, run), run, procTunablesOf(name), switchStates) };
  });
});

// A guest has no network, and so no newer nft, and a kernel in user mode no table of it.
const versions = isInGuest ? (guestStore === 'nft' ? (['own'] as const) : []) : nftVersions;
describe.each(versions)('the table of mode nftables, with the %s nft', (version) => {
  const found = nftOf(version);
  beforeEach(needKernel);
  beforeEach((context) => {
    if ('lack' in found) context.skip(found.lack);
  });

  nftContract('nft', async () => {
    const name = await namespace();
    const run = runIn(name, inPlace(found));
    const kernel = new LinuxKernel(await detectTools('nft', run), run, procTunablesOf(name));
    const foreign = async (input: string): Promise<void> => {
      const { exitCode, why } = await run({ file: '/usr/sbin/nft', args: ['-f', '-'], input });
      if (exitCode !== 0) throw new Error(why);
    };
    return { kernel, foreign, pairs: isInGuest ? 4 : 20 };
  });
});

test('the kernel has every sysctl of connection tracking that a profile may set, and keeps both ends of its range', async (context) => {
  needKernel(context);
  const name = await namespace();
  const tunables = procTunablesOf(name);
  const keys = sysctlKeys.filter((key) => key.startsWith('net.netfilter.') && key !== 'net.netfilter.nf_conntrack_max');
  const kept = keys.map((key) => {
    const { min, max } = sysctlRange(key);
    return [min, max].filter((value) => {
      tunables.write(key, value);
      return tunables.read(key) !== value;
    });
  });
  expect(keys.filter((_, at) => kept[at]!.length > 0)).toEqual([]);
});

/** /proc/sys/net shows the network namespace of the process that opens it, so a child in the namespace opens it. */
function procTunablesOf(name: string): Tunables {
  const inside = (script: string): string => execaSync('ip', ['netns', 'exec', name, 'sh', '-c', script]).stdout;
  return {
    read: (key) => Number(inside(`sysctl -n ${key}`)),
    write: (key, value) => void inside(`sysctl -w ${key}=${value}`),
    writable: () => true,
    readHashSize: () => undefined,
    writeHashSize: () => undefined,
  };
}
