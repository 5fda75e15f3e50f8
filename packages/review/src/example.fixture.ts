import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';

const examples = join(import.meta.dirname, '../../../examples');

/** The golden bundle of an example. */
export function bundleOf(example: string): BundleFiles {
  const dir = join(examples, example, 'out');
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(dir, path)).isFile(),
  );
  const kept = paths.filter((path) => !path.includes('.sluice-'));
  return new Map(kept.map((path) => [path, readFileSync(join(dir, path), 'utf8')]));
}

/** A bundle with one file edited. @throws Error when the edit changes nothing: the test could not fail */
export function edited(files: BundleFiles, path: string, edit: (text: string) => string): BundleFiles {
  const text = files.get(path) ?? '';
  const after = edit(text);
  if (after === text) throw new Error(`The edit leaves ${path} as it is`);
  return new Map([...files, [path, after]]);
}
