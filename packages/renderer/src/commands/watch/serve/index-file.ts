import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import { printEvent } from '@sluice/transport/content/events.ts';
import {
  annotationsOf,
  blobFile,
  indexFile,
  type LayoutReference,
  readWithin,
} from '@sluice/transport/content/layout.ts';
import { invalidContent } from '@sluice/transport/http/failure.ts';
import { registryLimits } from '@sluice/transport/http/limits.ts';
import { readDescriptor, readIndex, serialOf, tagKey } from '@sluice/transport/registry/artifact.ts';

/** The `index.json` of a layout, with what is told of it. */
export interface IndexFile {
  readonly body: Buffer;
  readonly etag: string;
  /** The text for streams of events. */
  readonly event: string;
}

/**
 * Reads the `index.json` of a layout, and the serial of the release that a tag names.
 * @returns undefined while it has no such tag
 * @throws RegistryFailure for other content, errors of the file system
 */
export function readIndexFile({ dir, tag }: LayoutReference): IndexFile | undefined {
  const bytesMax = registryLimits.manifestBytesMax;
  const path = join(dir, indexFile);
  const body = readWithin(path, bytesMax);
  const entry = body && readIndex(path, body).find((one) => annotationsOf(one)[tagKey] === tag);
  if (body === undefined || entry === undefined) return undefined;
  const { digest } = readDescriptor(path, entry);
  const release = readWithin(join(dir, blobFile(digest)), bytesMax);
  if (release === undefined) throw invalidContent(digest, `it is not in ${dir}`);
  const etag = `"${fileDigest(body)}"`;
  return { body, etag, event: printEvent({ etag, digest, serial: serialOf(digest, release) }) };
}
