import { packTexts, SourceFiles } from '@sluice/bundle';
import { Layered, type Problem } from '@sluice/netfilter';
import type { SluiceConfig } from '../model/config.ts';
import type { KubeObject } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import type { Quarantined } from '../quarantine/quarantine.ts';
import { type LastText, renderWithQuarantine } from '../quarantine/with-quarantine.ts';
import { isError } from '../render.ts';
import { indexed, type LastRender, renderChangedServices } from './changed-services.ts';

/** A cluster as rendered, with quarantine. */
export interface LiveRendered {
  /** Path → text. Empty where there are errors. Shares its entries with the map before: `differing` costs what differs. */
  readonly files: ReadonlyMap<string, string>;
  readonly errors: readonly Problem[];
  /** `SLICE_WITHOUT_SERVICE`: ignored objects. */
  readonly ignored: readonly Problem[];
  readonly quarantine: readonly Quarantined[];
  /** Whether only Services that changed, or whose endpoints did, were rendered. */
  readonly isPart: boolean;
}

/**
 * Renders a cluster repeatedly. Where only Services and their EndpointSlices changed, only these Services are rendered; every other change,
 * and one with an effect beyond its Service, renders everything. The files are the same.
 */
export class LiveRender {
  readonly #config: SluiceConfig;
  readonly #memo = new Memo();
  #last: LastRender | undefined;
  #ignored: readonly Problem[] = [];

  constructor(config: SluiceConfig) {
    this.#config = config;
  }

  /**
   * @param objects all objects of the cluster, by any key that an object keeps; an unchanged one is the same value as before
   * @param lastText for the files of quarantined objects
   */
  render(objects: ReadonlyMap<string, KubeObject>, lastText: LastText): LiveRendered {
    const next = this.#last && renderChangedServices(this.#last, objects, this.#memo);
    this.#last = next;
    if (next === undefined) return this.#renderAll(objects, lastText);
    return { files: next.files, errors: [], ignored: this.#ignored, quarantine: [], isPart: true };
  }

  /**
   * Where Services that change are rendered alone, drops what was read of all others. That is most of the memory of a cluster; the next
   * render of everything takes as long as the first one.
   */
  forget(): void {
    const last = this.#last && indexed(this.#last, this.#memo);
    if (last === undefined) return;
    this.#last = last;
    this.#memo.forget();
  }

  /** Compresses the files of the last render, which are read one by one from now on. */
  pack(): void {
    this.#last?.files.keepAs(packed);
  }

  #renderAll(objects: ReadonlyMap<string, KubeObject>, lastText: LastText): LiveRendered {
    const config = this.#config;
    const change = [...objects.values()];
    const input = { base: [], change, config, allocations: [], allocate: false, snapshot: true, strict: false };
    const rendered = renderWithQuarantine(input, lastText, this.#memo);
    const { problems, quarantine, basis } = rendered;
    const errors = problems.filter(isError);
    const files = Layered.of(rendered.files);
    if (errors.length === 0 && basis !== undefined) {
      this.#last = { objects, files, basis, names: this.#memo.names };
    }
    this.#ignored = problems.filter(({ code }) => code === 'SLICE_WITHOUT_SERVICE');
    return { files, errors, ignored: this.#ignored, quarantine, isPart: false };
  }
}

const packed = (files: ReadonlyMap<string, string>): ReadonlyMap<string, string> => {
  if (files instanceof SourceFiles) return files;
  const texts = packTexts([...files.values()]);
  return new SourceFiles(new Map([...files.keys()].flatMap((path, at) => (texts[at] ? [[path, texts[at]]] : []))));
};
