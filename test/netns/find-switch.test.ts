// @module-tag test
import { beforeEach, expect, test } from 'vitest';
import { needBackend, needKernel } from './privileges.ts';
import { inScratchNamespace } from './scratch.ts';

/** Where no namespace may be made, the node's own kernel is probed for the switch, while other programs use its rules. */

beforeEach(needKernel);

const source = (file: string): string => new URL(`../../packages/applier/src/kernel/${file}`, import.meta.url).pathname;

/** A process that probes repeatedly, and prints each answer. */
const probing = (backend: string): string => `
  const { findSwitch } = await import('${source('linux/find-switch.ts')}');
  const { runChildren } = await import('${source('run.ts')}');
  const { detectTools } = await import('${source('tools.ts')}');
  const tools = await detectTools('${backend}', runChildren());
  for (let times = 0; times < 4; times++) console.log((await findSwitch(tools, runChildren(), false)) ? 'yes' : 'no');
`;

test.for(['nft', 'legacy'] as const)(
  'processes that probe at the same time all find it, with the tools of %s, also while another program holds the lock, and leave nothing',
  { timeout: 60_000 },
  (backend, context) => {
    needBackend(context, backend);
    const prober = `"${process.execPath}" --input-type=module <<'END' &\n${probing(backend)}END\n`;
    const lock = '( flock 9; sleep 6 ) 9>/run/xtables.lock &\nsleep 0.2\n';
    const output = inScratchNamespace(`${lock}${prober.repeat(3)}wait\nipset list -n\n`);
    expect(output.split('\n')).toEqual(Array<string>(12).fill('yes'));
  },
);
