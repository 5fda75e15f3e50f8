import { expect, test } from 'vitest';
import type { GuestResult } from './suite.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** The cause of the test's first failure in the guest, if it passed at the second attempt there. */
    retriedInGuest?: string;
    /** The file that ran in the guest, and its duration there. */
    inGuest?: { readonly file: string; readonly seconds: number };
  }
}

/** Each test of a guest counts as one here. @param results may have `title`, which comes first in the names of tests */
export function reportTests(results: readonly (GuestResult & { readonly title?: string })[]): void {
  const named = results.map(({ title, ...rest }) => ({ ...rest, of: title === undefined ? '' : `${title},` }));
  // A retry here would repeat the same result: the retries are in the guest.
  test.for(named)('$of $file: $name', { retry: 0 }, ({ file, fileSeconds, state, message }, { skip, task }) => {
    task.meta.inGuest = { file, seconds: fileSeconds };
    if (state === 'passed' && message !== '') task.meta.retriedInGuest = message.split('\n')[0] ?? '';
    if (state === 'skipped') skip('skipped in the guest');
    expect(state === 'passed' ? '' : message).toBe('');
    expect(state).toBe('passed');
  });
}
