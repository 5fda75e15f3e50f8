import type { Place } from '@sluice/bundle';
import type { Blame } from '../../load/blame.ts';
import type { Explanation } from '../../review/explain.ts';

/** An explanation with what is known outside of the bundle. */
export interface Explained extends Explanation {
  readonly manifest?: Place;
  readonly blame?: Blame;
}

/** Prints whose a chain or rule is, the most important first. */
export function printExplained(explained: Explained, format: 'text' | 'json'): string {
  if (format === 'json') {
    return `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'Explanation', ...explained }, null, 2)}\n`;
  }
  const { service, meaning, manifest, blame, places } = explained;
  return [
    `${service === undefined ? 'What all Services share' : `Service ${service}`}: ${meaning}\n`,
    manifest ? `    manifest ${manifest.file}:${manifest.line}\n` : '',
    blame ? `    commit   ${blame.commit.slice(0, 12)} ${blame.author}: ${blame.summary}\n` : '',
    ...places.map(({ file, line, text }) => `    bundle   ${file}:${line}  ${text}\n`),
  ].join('');
}
