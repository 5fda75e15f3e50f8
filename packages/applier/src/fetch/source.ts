import { type Problem, type ProblemCode, refusal } from '@sluice/netfilter';

/** Path → text. Nothing of it is verified. */
export type SourceFiles = ReadonlyMap<string, string>;

/** What a source had when it was looked at. */
export interface FoundRelease {
  /** `SHA256SUMS`, `release.yaml`, signatures, waves and openings. */
  readonly top: SourceFiles;
  /**
   * Reads files of the bundle, a part at a time. Others may come, too.
   * @param wanted their paths
   * @throws SourceFailure, RegistryFailure
   */
  read(wanted: ReadonlySet<string>): AsyncIterable<SourceFiles> | Iterable<SourceFiles>;
  /** The release is in place: what the next one shares with it may be kept. */
  placed?(): void;
}

/** Where releases come from, for one attempt. */
export interface Source {
  /** For messages, such as `registry.example.com/sluice/shop:production`. */
  readonly name: string;
  /**
   * Asks what the source has now.
   * @returns a text that differs for other content: a digest, a commit
   * @throws SourceFailure, RegistryFailure
   */
  look(): Promise<string>;
  /**
   * Fetches the beginning of what `look` found.
   * @param check checks it before anything else is fetched; its errors end that. @returns the node's profile
   * @throws the same, errors of the file system, and those of `check`
   */
  open(check: (top: SourceFiles) => Promise<string>): Promise<FoundRelease>;
  /** Bytes that came over the network so far. */
  readonly bytes: number;
  /** Ends kept connections, where there are any. */
  close?(): void;
}

/** A source that could not be read, as a problem. */
export class SourceFailure extends Error {
  override readonly name = 'SourceFailure';
  readonly problem: Problem;

  constructor(code: ProblemCode & `SOURCE_${string}`, message: string, hint: string) {
    super(message);
    this.problem = refusal(code, message, hint);
  }
}

/** A failure for content that is not a release, or not the one that was looked at. */
export function invalidSource(name: string, why: string): SourceFailure {
  const hint = 'Compare it with the original; `sluice push`, a commit or a copy of all of it puts it right';
  return new SourceFailure('SOURCE_INVALID', `Cannot use ${name}: ${why}`, hint);
}
