import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { completeFile } from '@sluice/bundle';
import { planTree, writeTree } from '../../packages/renderer/src/emit/tree.ts';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import { publish } from './inbox.ts';

/** A rendered bundle in mode nftables whose files change as `sluice watch` changes them. */
export class ChangingBundle {
  readonly directory: string;
  /** Of the Services. */
  readonly paths: readonly string[];
  readonly #files: Map<string, string>;

  constructor(directory: string, services: number) {
    publish(directory, services, 'nftables');
    this.directory = directory;
    this.#files = new Map(listTree(directory).map((path) => [path, readFileSync(join(directory, path), 'utf8')]));
    this.#files.delete(completeFile);
    this.paths = [...this.#files.keys()].filter((path) => path.includes('/services/'));
  }

  read(some: readonly string[]): ReadonlyMap<string, string> {
    return new Map(some.map((path) => [path, this.#files.get(path) ?? '']));
  }

  change(some: readonly string[], edit: (text: string) => string): void {
    this.write(new Map([...this.read(some)].map(([path, text]) => [path, edit(text)])));
  }

  /** Writes some files again. */
  write(texts: ReadonlyMap<string, string>): void {
    for (const [path, text] of texts) this.#files.set(path, text);
    const plan = planTree(this.directory, this.#files);
    if ('code' in plan) throw new Error(plan.message);
    writeTree(this.directory, this.#files, plan);
  }
}
