import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  endpointsNamespace,
  fileDigest,
  readRelease,
  releaseNamespace,
  type Release,
  signatureFile,
  sumsMisfit,
} from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { besideRelease, writeSignature } from '../../emit/release.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readReleaseDirectory } from '@sluice/renderer/load/release.ts';
import { orStop, reading, Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { nameOf } from '../evidence/ordinal.ts';
import { signText } from '../evidence/ssh-keygen.ts';
import { say } from '@sluice/renderer/commands/output/progress.ts';
import { printDocument } from '@sluice/renderer/commands/output/output.ts';

interface SignOptions {
  readonly output: Format;
  readonly key: string;
  readonly as?: string;
  /** Sign with a key that is restricted to endpoint updates. */
  readonly endpoints?: boolean;
}

/**
 * `sluice sign`: adds one signature file and changes nothing else. `ssh-keygen` takes the key from a file, from the agent (then `--key`
 * is the public key) or from a token, and asks for passphrase and touch itself.
 */
export function signCommand(dir: string, { key, as: label, endpoints = false, output }: SignOptions): number {
  const release = orStop(reading(dir, () => readReleaseDirectory(dir)));
  const misfit = sumsMisfit(release.sums, release.digests);
  if (misfit !== undefined)
    throw new Stopped(cannot(dir, `its files do not match SHA256SUMS: ${misfit}`, 'Make the release again'));
  const what = orStop(readRelease(release.release));
  if (endpoints) checkUpdate(dir, what);
  const namespace = endpoints ? endpointsNamespace : releaseNamespace;
  const file = signatureFile(label);
  if (existsSync(join(dir, file)))
    throw new Stopped(
      cannot(dir, `${file} already exists`, 'Add another signature with --as NAME, or remove the existing one'),
    );
  say(`${dir}: ${describe(what, release.sums)}\n`);
  const made = signText(release.sums, key, namespace);
  if ('why' in made) throw new Stopped(cannot(dir, made.why, keyHint));
  const { signature, keyType } = made;
  const add = (): void => writeSignature(dir, file, signature);
  const refused = writing(join(dir, file), () => besideRelease(dir, fileDigest(release.sums), add));
  if (refused) throw new Stopped(refused);
  say(`${join(dir, file)}: signed with a key of type ${keyType}\n`);
  const { cluster, serial, revision = null } = what;
  const digest = `sha256:${fileDigest(release.sums)}`;
  printDocument(output, 'SignResult', {
    file: join(dir, file),
    keyType,
    namespace,
    cluster,
    serial,
    revision,
    digest,
  });
  return exitCodes.done;
}

/** Describes the release before ssh-keygen asks for passphrase or touch; signers can compare the digest. */
function describe(release: Release, sums: string): string {
  return `${nameOf(release)} of ${release.cluster}, from commit ${release.source}, SHA256SUMS has sha256:${fileDigest(sums)}`;
}

/** Nodes accept nothing but endpoint updates from such a key. */
function checkUpdate(dir: string, release: Release): void {
  if (release.revision === undefined)
    throw new Stopped(
      cannot(
        dir,
        'it is not an endpoint update',
        'Make one with `sluice release --endpoints`, or sign it as a release',
      ),
    );
}

const keyHint = 'Pass --key with a private key, or with a public key whose private key is in the agent';

function cannot(dir: string, why: string, hint: string): Problem {
  return { code: 'RELEASE_INVALID', level: 'error', message: `Cannot sign ${dir}: ${why}`, hint };
}
