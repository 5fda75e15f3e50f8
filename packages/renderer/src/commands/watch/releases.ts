import {
  type BundleFiles,
  fileDigest,
  isProblem,
  isSignatureFile,
  makeRelease,
  ResolveCache,
  printRelease,
  readRelease,
  type Release,
  releaseFile,
  releaseLimits,
  releaseNamespace,
  releaseSums,
  signatureFile,
  sumsFile,
  treeDigest,
} from '@sluice/bundle';
import { printProblem } from '@sluice/netfilter';
import { openRelease } from '@sluice/transport/content/pull.ts';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import { sleep } from '../../cluster/sleep.ts';
import { signText } from '../signing/sign-text.ts';
import type { PushResult, Recorder } from './commits.ts';
import type { Publication } from './publisher.ts';
import { type ReleaseTarget, signMs } from './release-target.ts';
import type { SerialBlock, Serials } from './serials.ts';

/** The newest release under the tag: nothing of it is verified. */
interface Newest {
  readonly digest: string;
  readonly release: Release;
  readonly isSigned: boolean;
}

interface ReleasesParts {
  readonly target: ReleaseTarget;
  readonly serials: Serials;
  readonly say: (what: string) => void;
  /** Called when the target has the newest publication, and when this process ceases to publish. */
  readonly current?: (isCurrent: boolean) => void;
}

/**
 * The publications of `sluice watch` as releases, in the place of commits in Git: each push makes one of the newest publication, with the
 * serial after the one that the tag names.
 */
export class Releases implements Recorder {
  readonly isPushing = true;
  readonly #parts: ReleasesParts;
  #files: BundleFiles = new Map();
  /** What this process pushed last, signed: it is not read again. */
  #pushed: Newest | undefined;
  #block: SerialBlock | undefined;
  readonly #digests = new DigestMemo();
  readonly #versions = new ResolveCache('versions');
  /** Counts the terms of this process: it may cease to publish during a push. */
  #term = 0;

  constructor(parts: ReleasesParts) {
    this.#parts = parts;
  }

  add({ files }: Pick<Publication, 'files'>): void {
    this.#files = files;
  }

  /** Another process takes over, and there is nothing on this machine that it could have changed. */
  forget(): void {
    this.#term += 1;
    this.#block = undefined;
    this.#parts.current?.(false);
  }
  repair = async (): Promise<readonly string[]> => [];
  followRemote = async (): Promise<string | undefined> => undefined;
  commit = async (): Promise<string | undefined> => undefined;
  rebase = async (): Promise<void> => {};

  /** Makes, signs and pushes a release of the newest publication, unless the tag names one of it. */
  async push(pauseMs: number): Promise<PushResult> {
    if (pauseMs > 0) await sleep(pauseMs);
    const term = this.#term;
    try {
      const why = await this.#push();
      if (why !== undefined) return this.#rejected(why);
      if (term === this.#term) this.#parts.current?.(true);
      return { kind: 'pushed' };
    } catch (error) {
      if (!(error instanceof RegistryFailure)) throw error;
      return this.#rejected(error.message);
    }
  }

  /** @returns why not, in words @throws RegistryFailure */
  async #push(): Promise<string | undefined> {
    const { target, serials, say } = this.#parts;
    const newest = await this.#newest();
    // A directory or a tag that is lost: nodes refuse serials that were used before.
    const serial = Math.max(newest?.release.serial ?? 0, this.#pushed?.release.serial ?? 0);
    const block =
      this.#block && this.#block.last > serial ? { ...this.#block, next: serial + 1 } : await serials(serial);
    if (typeof block === 'string') return block;
    const bundle = { files: this.#files, digests: this.#digests.of(this.#files), versions: this.#versions };
    const made = nextRelease(bundle, newest, target.key, block);
    if (typeof made === 'string') return made;
    if (made === undefined) return undefined;
    const digest = await target.push(made.release, made.files);
    this.#block = { ...block, isNewest: true };
    this.#pushed = { digest, release: made.release, isSigned: target.key !== undefined };
    const { serial: pushed, cluster } = made.release;
    const how = target.key === undefined ? 'not signed: nodes wait for `sluice sign` and `sluice push`' : 'signed';
    say(`pushed release ${pushed} of ${cluster} as ${target.content.name}:${target.tag} (${digest}), ${how}`);
    return undefined;
  }

  /**
   * The release under the tag.
   * @returns undefined where there is none yet
   * @throws RegistryFailure
   */
  async #newest(): Promise<Newest | undefined> {
    const { content, tag } = this.#parts.target;
    let digest: string;
    try {
      digest = await content.resolve(tag);
    } catch (error) {
      if (error instanceof RegistryFailure && error.status === 404) return undefined;
      throw error;
    }
    if (this.#pushed?.digest === digest && this.#pushed.isSigned) return this.#pushed;
    const { files } = await openRelease(content, digest);
    const release = readRelease(files.get(releaseFile) ?? '');
    if (isProblem(release)) throw new RegistryFailure('REGISTRY_INVALID', release.message, release.hint ?? '');
    return { digest, release, isSigned: [...files.keys()].some(isSignatureFile) };
  }

  #rejected(why: string): PushResult {
    return {
      kind: 'rejected',
      why: `Cannot push a release to ${this.#parts.target.content.name}: ${why}`,
      isFetched: false,
    };
  }
}

/** Digests of files. Texts that were not rendered again are the same strings, which are compared without reading them. */
class DigestMemo {
  #known: ReadonlyMap<string, { readonly text: string; readonly digest: string }> = new Map();

  /** Path → digest. */
  of(files: BundleFiles): Map<string, string> {
    const next = [...files].map(([path, text]) => {
      const before = this.#known.get(path);
      return [path, before?.text === text ? before : { text, digest: fileDigest(text) }] as const;
    });
    this.#known = new Map(next);
    return new Map(next.map(([path, { digest }]) => [path, digest]));
  }
}

/**
 * Makes the release after the newest one.
 * @param digests path → digest of the files
 * @param versions what is kept of releases before
 * @returns its files; undefined where the newest one has this content; or why there is none, in words
 */
function nextRelease(
  bundle: { readonly files: BundleFiles; readonly digests: Map<string, string>; readonly versions: ResolveCache },
  newest: Newest | undefined,
  key: string | undefined,
  { next: serial, isNewest }: SerialBlock,
): { readonly release: Release; readonly files: ReadonlyMap<string, string> } | string | undefined {
  const { files, digests, versions } = bundle;
  // There is no commit: the name of the content is in its place.
  const source = treeDigest(digests);
  if (isNewest && newest?.release.source === source && (newest.isSigned || key === undefined)) return undefined;
  if (serial > releaseLimits.serialMax) return `the tag has the greatest serial, ${releaseLimits.serialMax}`;
  const release = makeRelease(files, { serial, source }, versions);
  if ('length' in release) return release.map(printProblem).join('');
  if (newest && newest.release.cluster !== release.cluster)
    return `the tag has a release of cluster ${newest.release.cluster}, and this is ${release.cluster}`;
  const text = printRelease(release);
  const sums = releaseSums(new Map([...digests, [releaseFile, fileDigest(text)]]));
  const signed = key === undefined ? { signature: undefined } : signText(sums, key, releaseNamespace, signMs);
  if ('why' in signed) return signed.why;
  const { signature } = signed;
  return {
    release,
    files: new Map([
      ...files,
      [releaseFile, text],
      [sumsFile, sums],
      ...(signature === undefined ? [] : [[signatureFile(), signature] as const]),
    ]),
  };
}
