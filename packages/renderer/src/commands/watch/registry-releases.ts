import {
  type BundleFiles,
  fileDigest,
  isProblem,
  isSignatureFile,
  makeRelease,
  printRelease,
  readRelease,
  type Release,
  releaseFile,
  releaseLimits,
  releaseNamespace,
  signatureFile,
  sumsFile,
  sumsOf,
  treeDigest,
} from '@sluice/bundle';
import { printProblem } from '@sluice/netfilter';
import { openRelease } from '@sluice/transport/content/pull.ts';
import { pushRelease } from '@sluice/transport/content/push.ts';
import { registryContent } from '@sluice/transport/content/registry.ts';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import { sleep } from '../../cluster/sleep.ts';
import { signText } from '../signing/sign-text.ts';
import type { PushResult, Recorder } from './commits.ts';
import type { Publication } from './publisher.ts';
import { type ReleaseTarget, signMs } from './release-target.ts';

/** The newest release under the tag: nothing of it is verified. */
interface Newest {
  readonly release: Release;
  readonly isSigned: boolean;
}

/**
 * The publications of `sluice watch` as releases in a registry, in the place of commits in Git: each push makes one of the newest
 * publication, with the serial after the one that the tag names.
 */
export class RegistryReleases implements Recorder {
  readonly isPushing = true;
  readonly #target: ReleaseTarget;
  readonly #say: (what: string) => void;
  #files: BundleFiles = new Map();

  constructor(target: ReleaseTarget, say: (what: string) => void) {
    this.#target = target;
    this.#say = say;
  }

  add({ files }: Pick<Publication, 'files'>): void {
    this.#files = files;
  }

  /** There is nothing on this machine that another process could have changed. */
  forget(): void {}
  repair = async (): Promise<readonly string[]> => [];
  followRemote = async (): Promise<string | undefined> => undefined;
  commit = async (): Promise<string | undefined> => undefined;
  rebase = async (): Promise<void> => {};

  /** Makes, signs and pushes a release of the newest publication, unless the tag names one of it. */
  async push(pauseMs: number): Promise<PushResult> {
    if (pauseMs > 0) await sleep(pauseMs);
    const { client, tag, key } = this.#target;
    try {
      const newest = await this.#newest();
      const made = nextRelease(this.#files, newest, key);
      if (typeof made === 'string') return this.#rejected(made);
      if (made === undefined) return { kind: 'pushed' };
      const { digest } = await pushRelease(client, made.release, made.files, tag);
      const { serial, cluster } = made.release;
      const how = key === undefined ? 'not signed: nodes wait for `sluice sign` and `sluice push`' : 'signed';
      this.#say(`pushed release ${serial} of ${cluster} as ${registryContent(client).name}:${tag} (${digest}), ${how}`);
      return { kind: 'pushed' };
    } catch (error) {
      if (!(error instanceof RegistryFailure)) throw error;
      return this.#rejected(error.message);
    }
  }

  /**
   * The release under the tag.
   * @returns undefined where there is none yet
   * @throws RegistryFailure
   */
  async #newest(): Promise<Newest | undefined> {
    const content = registryContent(this.#target.client);
    let digest: string;
    try {
      digest = await content.resolve(this.#target.tag);
    } catch (error) {
      if (error instanceof RegistryFailure && error.status === 404) return undefined;
      throw error;
    }
    const { files } = await openRelease(content, digest);
    const release = readRelease(files.get(releaseFile) ?? '');
    if (isProblem(release)) throw new RegistryFailure('REGISTRY_INVALID', release.message, release.hint ?? '');
    return { release, isSigned: [...files.keys()].some(isSignatureFile) };
  }

  #rejected(why: string): PushResult {
    return {
      kind: 'rejected',
      why: `Cannot push a release to ${this.#target.client.reference.registry}: ${why}`,
      isFetched: false,
    };
  }
}

/**
 * Makes the release after the newest one.
 * @returns its files; undefined where the newest one has this content; or why there is none, in words
 */
function nextRelease(
  files: BundleFiles,
  newest: Newest | undefined,
  key: string | undefined,
): { readonly release: Release; readonly files: ReadonlyMap<string, string> } | string | undefined {
  // There is no commit: the name of the content is in its place.
  const source = treeDigest(new Map([...files].map(([path, text]) => [path, fileDigest(text)])));
  if (newest?.release.source === source && (newest.isSigned || key === undefined)) return undefined;
  const serial = (newest?.release.serial ?? 0) + 1;
  if (serial > releaseLimits.serialMax) return `the tag has the greatest serial, ${releaseLimits.serialMax}`;
  const release = makeRelease(files, { serial, source });
  if ('length' in release) return release.map(printProblem).join('');
  if (newest && newest.release.cluster !== release.cluster)
    return `the tag has a release of cluster ${newest.release.cluster}, and this is ${release.cluster}`;
  const text = printRelease(release);
  const sums = sumsOf(files, text);
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
