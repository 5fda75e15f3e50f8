import { describeLines, describeRules, readPath, readRuleFile, serviceOf } from '@sluice/bundle';
import {
  type BundleTool,
  differing,
  families,
  familyOf,
  hasLines,
  isSetsTool,
  type Removal,
  type RemovalBound,
  removalOf,
  type Tool,
} from '@sluice/netfilter';

type Files = ReadonlyMap<string, string>;

/** What a bundle takes away from the one before. */
export interface BundleRemoval extends Removal {
  /**
   * The files before of Services that the new bundle has without endpoints, where the removal lies in these: with them in place of its own
   * it is none. undefined: Services are gone.
   */
  readonly kept: Files | undefined;
}

/** Finds removals between bundles. It remembers what it reads of files until `forget`. */
export class RemovalFinder {
  /** The number of endpoints by the text of a file. */
  readonly #counts = new Map<string, number>();

  /**
   * @param isMeant whether a Service, such as `shop/web`, is known to be gone: it is not missed
   * @returns undefined: the new bundle is no removal (`removalOf`)
   */
  find(
    before: Files,
    after: Files,
    bound: RemovalBound,
    isMeant: (service: string) => boolean = () => false,
  ): BundleRemoval | undefined {
    const lost = differing(before, after).filter((path) => this.#isLost(path, before.get(path), after.get(path)));
    const endpoints = lost.reduce((sum, path) => sum + this.#count(path, before.get(path) ?? ''), 0);
    // Reading all Services of a large cluster takes seconds, and most publications take nothing away.
    if (endpoints < bound.least) return undefined;
    const has = this.#byService(after);
    const had = new Map([...this.#byService(before)].filter(([service]) => has.has(service) || !isMeant(service)));
    const removal = removalOf(had, has, bound);
    if (!removal) return undefined;
    const emptied = new Map([...had].filter(([service]) => has.get(service) === 0));
    const kept = new Map([...before].filter(([path]) => emptied.has(serviceOf(path))));
    const isEnough = removalOf(had, new Map([...has, ...emptied]), bound) === undefined;
    return { ...removal, kept: isEnough && [...kept.keys()].every((path) => after.has(path)) ? kept : undefined };
  }

  /** Frees what was read. */
  forget(): void {
    this.#counts.clear();
  }

  /** Whether a file of a Service had endpoints and has none. Without them it is shorter: each endpoint has lines of its own. */
  #isLost(path: string, had: string | undefined, has: string | undefined): boolean {
    if (had === undefined || (has !== undefined && has.length >= had.length)) return false;
    return (has === undefined || this.#count(path, has) === 0) && this.#count(path, had) > 0;
  }

  /** A Service may have files of several profiles and tools: the one with most endpoints counts. */
  #byService(files: Files): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    for (const [path, text] of files) {
      const service = serviceOf(path);
      if (service !== '') found.set(service, Math.max(this.#count(path, text), found.get(service) ?? 0));
    }
    return found;
  }

  /** The number of addresses of endpoints; of a file that cannot be read 1: it may have some. */
  #count(path: string, text: string): number {
    const what = readPath(path);
    if (what?.kind !== 'service' || isSetsTool(what.tool)) return 0;
    const count = this.#counts.get(text) ?? countIn(path, text, what.tool);
    this.#counts.set(text, count);
    return count;
  }
}

function countIn(path: string, text: string, tool: BundleTool): number {
  const file = hasLines(tool) ? undefined : readRuleFile(path, text);
  if (file && !('sections' in file)) return 1;
  const frontends = file
    ? describeRules(familyOf[tool as Tool], file)
    : families.flatMap((family) => describeLines(family, path, text));
  const endpoints = frontends.flatMap((frontend) => frontend.endpoints);
  return new Set(endpoints.map((one) => one.text.slice(0, one.text.lastIndexOf(':')))).size;
}
