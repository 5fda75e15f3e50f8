import { expect, test } from 'vitest';
import { nextStep, type Situation, type Step } from './step.ts';

const quiet: Situation = {
  nowMs: 1000,
  role: 'writing',
  ending: 'no',
  renderMs: undefined,
  commitMs: undefined,
  push: 'none',
};
const forever: Step = { do: 'wait', ms: undefined };

test.each<[string, Partial<Situation>, Step]>([
  ['waits for an event without a change', {}, forever],
  ['waits until changes settle', { renderMs: 1020, commitMs: 1500 }, { do: 'wait', ms: 20 }],
  ['renders settled changes', { renderMs: 1000 }, { do: 'render' }],
  ['renders before it commits', { renderMs: 990, commitMs: 900 }, { do: 'render' }],
  ['commits settled publications', { renderMs: 1020, commitMs: 1000 }, { do: 'commit' }],
  ['renders during a push', { renderMs: 1000, push: 'running' }, { do: 'render' }],
  ['commits nothing during a push', { commitMs: 900, push: 'running' }, forever],
  ['concludes a push before the next commit', { commitMs: 900, push: 'ended' }, { do: 'conclude push' }],
  ['concludes a push before the next render', { renderMs: 900, push: 'ended' }, { do: 'conclude push' }],
  ['writes nothing while another process writes', { role: 'standby', renderMs: 900, commitMs: 900 }, forever],
  ['prepares the directory before the first render', { role: 'taking over', renderMs: 900 }, { do: 'take over' }],
  ['waits for the push of an earlier term before that', { role: 'taking over', push: 'running' }, forever],
  ['ends', { ending: 'now', renderMs: 900 }, { do: 'end' }],
  ['commits before it ends', { ending: 'after commit', renderMs: 900 }, { do: 'commit' }],
  ['ends after a push', { ending: 'now', push: 'running' }, forever],
  ['does not end before it concluded a push', { ending: 'now', push: 'ended' }, { do: 'conclude push' }],
])('%s', (_title, situation, step) => {
  expect(nextStep({ ...quiet, ...situation })).toEqual(step);
});
