import { releaseNamespace } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import { Stopped } from '../failure/failure.ts';
import { signText } from '../signing/sign-text.ts';

/** Where releases go. */
export interface ReleaseTarget {
  readonly client: RegistryClient;
  readonly tag: string;
  /** A key of ssh-keygen that needs no passphrase; undefined: releases are not signed. */
  readonly key: string | undefined;
}

/** A key that takes longer waits for an operator, and there is none. */
export const signMs = 10_000;

/**
 * Checks at the start what an operator has to mend; a registry that is away is waited for.
 * @param url `oci://REGISTRY/REPOSITORY:TAG`
 * @param key signs a text once
 * @throws Stopped
 */
export function releaseTarget(url: string, key: string | undefined): ReleaseTarget {
  const reference = readReference(url.replace(/^oci:\/\//, ''));
  if (reference?.tag === undefined || reference.digest !== undefined || !url.startsWith('oci://')) {
    const hint =
      'Write it as oci://registry.example.com/sluice/shop:production; credentials are those of `docker login`';
    throw new Stopped(refused('REGISTRY_INVALID', 'push there: not of the form oci://REGISTRY/REPOSITORY:TAG', hint));
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
  return { client: new RegistryClient(reference, { env: process.env }), tag: reference.tag, key };
}

const refused = (code: Problem['code'], why: string, hint: string): Problem => ({
  code,
  level: 'error',
  message: `Cannot ${why}`,
  hint,
});
