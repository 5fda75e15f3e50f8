import { isProblem, type Release, releaseNamespace } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import type { Content } from '@sluice/transport/content/content.ts';
import { directoryReader, layoutContent, readLayoutReference } from '@sluice/transport/content/layout.ts';
import { type LayerMemo, type PackedRelease, packRelease } from '@sluice/transport/content/pack.ts';
import { pushRelease } from '@sluice/transport/content/push.ts';
import { registryContent } from '@sluice/transport/content/registry.ts';
import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import { writeLayout } from '../../emit/layout.ts';
import { Stopped } from '../failure/failure.ts';
import { signText } from '../signing/sign-text.ts';

/** Where releases go: a repository of a registry, or an image layout in a directory. */
export interface ReleaseTarget {
  readonly content: Content;
  readonly tag: string;
  /** A key of ssh-keygen that needs no passphrase; undefined: releases are not signed. */
  readonly key: string | undefined;
  /** Whether it is the same for all processes: a directory is not. */
  readonly isShared: boolean;
  /**
   * @param files path → text of all files of the release
   * @returns its digest
   * @throws RegistryFailure
   */
  push(release: Release, files: ReadonlyMap<string, string>): Promise<string>;
}

/** A key that takes longer waits for an operator, and there is none. */
export const signMs = 10_000;

/**
 * Checks at the start what an operator has to mend; a registry that is away is waited for.
 * @param url `oci://REGISTRY/REPOSITORY:TAG` or `oci:DIR:TAG`
 * @param key signs a text once
 * @throws Stopped
 */
export function releaseTarget(url: string, key: string | undefined): ReleaseTarget {
  const layout = readLayoutReference(url);
  const reference = readReference(url.replace(/^oci:\/\//, ''));
  const isTagged = url.startsWith('oci://') && reference?.tag !== undefined && reference.digest === undefined;
  if (layout === undefined && !isTagged) {
    const hint =
      'Write it as oci://registry.example.com/sluice/shop:production, with the credentials of `docker login`, or as oci:/var/lib/releases:production';
    throw new Stopped(
      refused('REGISTRY_INVALID', 'push there: not of the form oci://REGISTRY/REPOSITORY:TAG or oci:DIR:TAG', hint),
    );
  }
  const tried = key === undefined ? undefined : signText('', key, releaseNamespace, signMs);
  if (tried && 'why' in tried)
    throw new Stopped(
      refused(
        'RELEASE_INVALID',
        `sign releases with ${key}: ${tried.why}`,
        'Pass --key with a key that needs no passphrase',
      ),
    );
  if (layout !== undefined) {
    const { dir, tag } = layout;
    const content = layoutContent(`oci:${dir}`, directoryReader(dir));
    const memo: LayerMemo = new Map();
    const push = async (release: Release, files: ReadonlyMap<string, string>): Promise<string> =>
      writeInto(dir, tag, packRelease(release, files, memo));
    return { content, tag, key, isShared: false, push };
  }
  const { tag = '', ...repository } = reference ?? { registry: '', repository: '' };
  const client = new RegistryClient(repository, { env: process.env });
  const push = async (release: Release, files: ReadonlyMap<string, string>): Promise<string> =>
    (await pushRelease(client, release, files, tag)).digest;
  return { content: registryContent(client), tag, key, isShared: true, push };
}

/** @throws RegistryFailure, also where the directory cannot be written */
function writeInto(dir: string, tag: string, release: PackedRelease): string {
  const failed = (why: string, hint: string): RegistryFailure => new RegistryFailure('REGISTRY_INVALID', why, hint);
  try {
    const written = writeLayout(dir, tag, release);
    if (isProblem(written)) throw failed(written.message, written.hint ?? '');
    return written.digest;
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw failed(`Cannot write ${dir}: ${error.message}`, 'Check the directory, its permissions and the free space');
  }
}

const refused = (code: Problem['code'], why: string, hint: string): Problem => refusal(code, `Cannot ${why}`, hint);
