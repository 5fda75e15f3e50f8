import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** `docs/alerts.md`: a section for each alert. */

const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'alerts.md'), 'utf8');

/** Sections by the name of their alert. */
export const sections: ReadonlyMap<string, string> = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf('\n')), text] as const),
);

/** The command with which an operator looks at the node; undefined for alerts of `sluice watch`. */
export function commandOf(alert: string): string | undefined {
  return /^```sh\n(.+)\n```$/m.exec(sections.get(alert) ?? '')?.[1];
}
