import { bundleLimits } from '@sluice/bundle';
import { isLoopback } from '@sluice/transport/http/addresses.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import * as v from 'valibot';
import { absolutePath, wholeNumber } from './config-forms.ts';

/**
 * `source` and `receipts.push` of `sluiced.yaml`: where the fetch process reads releases and sends receipts. docs/fetch.md explains every
 * field.
 */

/** @param protocols with colon; `http:` counts for this machine alone: the source could be read and changed on its way elsewhere */
const url = (...protocols: readonly string[]) =>
  v.pipe(
    v.string(),
    v.maxLength(2048),
    v.check(
      (text) => {
        if (!/^[!-~]+$/.test(text) || !URL.canParse(text)) return false;
        const { protocol, hostname, password, username, search, hash } = new URL(text);
        const isHere = protocol === 'http:' && isLoopback(hostname);
        const isPlain = password === '' && search === '' && hash === '' && (username === '' || protocol === 'ssh:');
        return isPlain && hostname !== '' && (protocols.includes(protocol) || isHere);
      },
      `not a URL of ${protocols.map((one) => `${one}//`).join(' or ')} without password, query and fragment`,
    ),
  );

const tag = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/, 'not a valid tag'));

/** A path as an argument of ssh, whose options git gives to a shell. */
const plainPath = v.pipe(
  v.string(),
  v.regex(/^\/[a-zA-Z0-9/._-]*$/, 'a path for ssh is absolute, and has letters, digits and /._- only'),
);

const credentials = v.union([
  v.strictObject({ file: absolutePath }),
  v.strictObject({ systemd: v.pipe(v.string(), v.regex(/^[a-zA-Z0-9._-]{1,255}$/, 'not the name of a credential')) }),
  v.strictObject({ exec: v.tupleWithRest([absolutePath], v.string()) }),
]);

/** How a server is reached. */
const connection = {
  credentials: v.optional(credentials),
  caFile: v.optional(absolutePath),
  proxy: v.optional(url('http:', 'https:')),
};

const knownHosts = v.optional(plainPath, '/etc/sluice/known_hosts');

/** @param names how many of a tag and a digest a reference has @param form in words */
const registry = (names: 0 | 1, form: string) =>
  v.strictObject({
    reference: v.pipe(
      v.string(),
      v.check((text) => {
        const found = readReference(text);
        return found !== undefined && Number(found.tag !== undefined) + Number(found.digest !== undefined) === names;
      }, `not of the form ${form}`),
    ),
    plainHttp: v.optional(v.boolean(), false),
  });

const kinds = {
  oci: registry(1, 'REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST'),
  https: v.strictObject({
    url: v.union([url('https:'), v.pipe(v.array(url('https:')), v.minLength(1), v.maxLength(8))]),
    tag: v.optional(tag, 'latest'),
    events: v.optional(v.boolean(), false),
    certificateFile: v.optional(absolutePath),
  }),
  git: v.strictObject({
    url: url('https:', 'ssh:'),
    branch: v.optional(
      v.pipe(
        v.string(),
        v.maxLength(255),
        v.regex(/^(?![-/.])(?!.*(?:\.\.|\/\/|@\{|\.lock$|[/.]$))[a-zA-Z0-9/._-]+$/, 'not the name of a branch'),
      ),
      'main',
    ),
    path: v.optional(
      v.pipe(
        v.string(),
        v.maxLength(1024),
        v.regex(
          /^(?![-/])(?!.*(?:^|\/)\.{1,2}(?:\/|$))[a-zA-Z0-9/._-]*$/,
          'not a path below the top of the repository',
        ),
      ),
      '',
    ),
    knownHosts,
  }),
  dir: v.strictObject({ path: absolutePath }),
};

const kindNames = Object.keys(kinds) as readonly (keyof typeof kinds)[];

type Kinds = Partial<Readonly<Record<keyof typeof kinds, unknown>>>;
const hasOneKind = (given: Kinds): boolean => kindNames.filter((kind) => given[kind]).length === 1;
const needsOneKind = `needs exactly one of ${kindNames.join(', ')}`;
interface SshKey {
  readonly git?: { readonly url: string } | undefined;
  readonly credentials?: CredentialsConfig | undefined;
}
const hasKeyInFile = ({ git, credentials: given }: SshKey): boolean =>
  !git?.url.startsWith('ssh:') || given === undefined || !('exec' in given);
const needsKeyInFile = 'ssh takes its key from a file or from systemd, not from a program';

/** The schema of `source`. Exactly one kind is set. */
export const sourceSchema = v.pipe(
  v.strictObject({
    oci: v.optional(kinds.oci),
    https: v.optional(kinds.https),
    git: v.optional(kinds.git),
    dir: v.optional(kinds.dir),
    directory: v.optional(absolutePath, '/var/lib/sluice-fetch'),
    intervalSeconds: v.optional(wholeNumber(1, 86_400), 60),
    ...connection,
    bytesMax: v.optional(wholeNumber(1024, 4 * bundleLimits.treeBytesMax), bundleLimits.treeBytesMax),
    secondsMax: v.optional(wholeNumber(1, 3600), 300),
    bytesPerSecondMax: v.optional(wholeNumber(10_000, 2 ** 40)),
    lateSeconds: v.optional(wholeNumber(0, 30 * 86_400), 3600),
  }),
  v.check((given) => hasOneKind(given), needsOneKind),
  v.check((given) => hasKeyInFile(given), needsKeyInFile),
);

/** The schema of `receipts.push`. Exactly one kind is set. */
export const pushSchema = v.pipe(
  v.strictObject({
    oci: v.optional(registry(0, 'REGISTRY/REPOSITORY')),
    https: v.optional(v.strictObject({ url: url('https:') })),
    git: v.optional(v.strictObject({ url: url('https:', 'ssh:'), knownHosts })),
    dir: v.optional(kinds.dir),
    intervalSeconds: v.optional(wholeNumber(1, 86_400), 30),
    ...connection,
  }),
  v.check((given) => hasOneKind(given), needsOneKind),
  v.check((given) => hasKeyInFile(given), needsKeyInFile),
);

/** `source` with its defaults. */
export type SourceConfig = v.InferOutput<typeof sourceSchema>;
/** `receipts.push` with its defaults. */
export type PushConfig = v.InferOutput<typeof pushSchema>;
/** How a server is reached; what both have. */
export interface ConnectionConfig extends Pick<SourceConfig, 'credentials' | 'caFile' | 'proxy'> {
  readonly oci?: { readonly plainHttp: boolean } | undefined;
  readonly git?: { readonly url: string; readonly knownHosts: string } | undefined;
  readonly https?:
    | { readonly url: string | readonly string[]; readonly certificateFile?: string | undefined }
    | undefined;
}
/** Where its password, token or key comes from. */
export type CredentialsConfig = v.InferOutput<typeof credentials>;

/** The kind of a source: the one that is set. */
export const kindOf = (source: SourceConfig): keyof typeof kinds => kindNames.find((kind) => source[kind]) ?? 'dir';

/** The directory of the release that was fetched: the bundle directory of the node. */
export const releasePath = ({ directory }: Pick<SourceConfig, 'directory'>): string => `${directory}/release`;
