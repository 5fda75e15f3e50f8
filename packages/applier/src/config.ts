import { nearest, type Place, type Problem, refusal, removalDefaults } from '@sluice/netfilter';
import { releaseLimits } from '@sluice/bundle';
import { logFormats, logLevels } from '@sluice/cli';
import * as v from 'valibot';
import { LineCounter, parseDocument } from 'yaml';
import {
  absolutePath,
  domainName,
  hostPort,
  httpUrl,
  network,
  seconds,
  secondsUpTo,
  serviceName,
  share,
  subdomain,
  vipName,
  wholeNumber,
} from './config-forms.ts';
import { pushSchema, releasePath, sourceSchema } from './config-source.ts';
import { limits } from './limits.ts';

/** What Sluice may take over: the chains of a stopped kube-proxy; the position before foreign rules. */
const takenOver = v.picklist(['kube-proxy', 'order']);
const probeTimes = {
  name: v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'not a valid DNS label')),
  service: v.optional(serviceName),
  attempts: v.optional(wholeNumber(1, 100), limits.probeAttemptsDefault),
  failures: v.optional(wholeNumber(1, 100)),
  intervalSeconds: v.optional(seconds, limits.probeIntervalMsDefault / 1000),
  timeoutSeconds: v.optional(seconds, limits.probeTimeoutMsDefault / 1000),
};
const probeSchema = v.union([
  v.strictObject({ ...probeTimes, http: httpUrl }),
  v.strictObject({ ...probeTimes, tcp: hostPort(1) }),
  v.strictObject({
    ...probeTimes,
    dns: hostPort(1),
    query: domainName,
    type: v.optional(v.picklist(['A', 'AAAA']), 'A'),
  }),
  v.strictObject({ ...probeTimes, exec: v.tupleWithRest([absolutePath], v.string()) }),
]);

/**
 * Where rules are rehearsed. Configs of older versions have true or false, and refusing a config leaves a node without rules after a boot.
 */
const places = v.pipe(
  v.unknown(),
  v.transform((value) => (value === true ? 'auto' : value === false ? 'off' : value)),
  v.picklist(['auto', 'unit', 'namespace', 'off']),
);

/** What `readConfig` checks, and editors by docs/schema/sluicedconfig.schema.json. */
export const configSchema = v.strictObject({
  apiVersion: v.literal('sluice.dev/v1alpha1'),
  kind: v.literal('SluicedConfig'),
  node: subdomain,
  cluster: v.optional(v.pipe(v.string(), v.minLength(1))),
  bundle: v.optional(absolutePath, '/etc/sluice/rendered'),
  bundleOwner: v.optional(wholeNumber(0, 2 ** 32 - 2)),
  state: v.optional(absolutePath, '/var/lib/sluice'),
  signatures: v.optional(
    v.strictObject({
      policy: v.optional(v.picklist(['required', 'none']), 'required'),
      allowedSigners: v.optional(absolutePath, '/etc/sluice/allowed_signers'),
      threshold: v.optional(wholeNumber(1, releaseLimits.signaturesMax), 1),
      floor: v.optional(wholeNumber(0, releaseLimits.serialMax), 0),
    }),
    {},
  ),
  backend: v.optional(v.picklist(['auto', 'legacy', 'nft']), 'auto'),
  takeOver: v.optional(
    v.union([
      v.pipe(
        takenOver,
        v.transform((one) => [one]),
      ),
      v.array(takenOver),
    ]),
    [],
  ),
  requireParity: v.optional(v.boolean(), false),
  parityCertificate: v.optional(absolutePath, '/etc/sluice/parity.json'),
  parityProgram: v.optional(absolutePath, '/usr/bin/sluice'),
  allowPartial: v.optional(v.boolean(), false),
  rehearse: v.optional(places, 'auto'),
  layout: v.optional(v.picklist(['tree', 'flat']), 'tree'),
  probation: v.optional(
    v.strictObject({
      seconds: v.optional(secondsUpTo(3600), limits.probationSecondsDefault),
      deadmanSeconds: v.optional(wholeNumber(6, 3600), limits.deadmanSecondsDefault),
      confirm: v.optional(v.picklist(['auto', 'manual']), 'auto'),
      decisionSeconds: v.optional(secondsUpTo(86_400), limits.decisionSecondsDefault),
      sources: v.optional(v.array(network), []),
      perService: v.optional(v.boolean(), false),
    }),
    {},
  ),
  releases: v.optional(
    v.strictObject({
      perHour: v.optional(wholeNumber(1, limits.releasesPerHourMax), limits.releasesPerHourDefault),
    }),
    {},
  ),
  lateSeconds: v.optional(secondsUpTo(86_400), limits.servicesLateSecondsDefault),
  endpoints: v.optional(
    v.strictObject({
      ranges: v.optional(v.array(network), []),
      lastAfterSeconds: v.optional(secondsUpTo(300), limits.lastEndpointAfterMs / 1000),
      alarmShare: v.optional(share, 0.5),
      live: v.optional(
        v.strictObject({
          directory: absolutePath,
          owner: v.optional(wholeNumber(0, 2 ** 32 - 2)),
        }),
      ),
    }),
    {},
  ),
  removals: v.optional(
    v.strictObject({
      share: v.optional(share, removalDefaults.share),
      least: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), removalDefaults.least),
      holdSeconds: v.optional(secondsUpTo(86_400), removalDefaults.holdMs / 1000),
    }),
    {},
  ),
  source: v.optional(sourceSchema),
  receipts: v.optional(
    v.strictObject({
      /** Left out: `receipts` in the state directory. */
      directory: v.optional(absolutePath),
      keep: v.optional(wholeNumber(1, limits.receiptsKeptMax), limits.receiptsKeptDefault),
      push: v.optional(pushSchema),
    }),
    {},
  ),
  ipvs: v.optional(
    v.strictObject({
      drainSeconds: v.optional(wholeNumber(0, limits.drainMsMax / 1000), limits.drainMs / 1000),
    }),
    {},
  ),
  /** Less than `TimeoutStopSec` of the unit leaves time for a change in progress. */
  drain: v.optional(v.strictObject({ shutdownSeconds: v.optional(secondsUpTo(60), 0) }), {}),
  /** For scripts that announce an address. */
  vip: v.optional(
    v.strictObject({
      frontends: v.optional(v.pipe(v.array(vipName), v.maxLength(limits.vip.frontendsMax)), []),
      directory: v.optional(absolutePath, '/run/sluice/vip'),
    }),
    {},
  ),
  listen: v.optional(hostPort(0), '127.0.0.1:10276'),
  healthzBindAddress: v.optional(hostPort(0)),
  metricsBindAddress: v.optional(hostPort(0)),
  countConnections: v.optional(v.boolean(), false),
  countTraffic: v.optional(v.boolean(), false),
  countedServices: v.optional(wholeNumber(1, limits.countedServicesMax), limits.countedFrontendsShown),
  logFormat: v.optional(v.picklist(logFormats), 'text'),
  logLevel: v.optional(v.picklist(logLevels), 'info'),
  scanIntervalSeconds: v.optional(seconds, limits.scanIntervalMsDefault / 1000),
  probes: v.optional(v.array(probeSchema), []),
});

/** `sluiced.yaml` with its defaults. docs/sluiced.yaml explains every field. */
export type SluicedConfig = v.InferOutput<typeof configSchema>;
/** One probe: its target, attempts, interval and timeout. */
export type ProbeConfig = v.InferOutput<typeof probeSchema>;

/** The config of a node without a file: `sluiced apply DIR --node NAME`. */
export function defaultConfig(node: string): SluicedConfig {
  return v.parse(configSchema, { apiVersion: 'sluice.dev/v1alpha1', kind: 'SluicedConfig', node });
}

/** @returns why a text is not a valid node name, undefined when it is one */
export function nodeMisfit(name: string): string | undefined {
  return v.safeParse(subdomain, name).issues?.[0].message;
}

/**
 * Reads the text of `sluiced.yaml`.
 * @param file its path, for problems
 * @returns the config, or every problem in it (`NODE_CONFIG_INVALID`)
 */
export function readConfig(file: string, text: string): SluicedConfig | { readonly problems: readonly Problem[] } {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const place = (offset: number): Place => {
    const { line, col } = lineCounter.linePos(offset);
    return { file, line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  if (document.errors.length > 0) {
    return { problems: document.errors.map((error) => invalid(place(error.pos[0]), error.message)) };
  }
  const value = plainValue(document);
  if ('alias' in value) return { problems: [invalid({ file, line: 1, column: 1 }, value.alias)] };
  const parsed = v.safeParse(configSchema, value.plain);
  if (!parsed.success) {
    const offset = (path: readonly unknown[]): number => offsetOf(document, path);
    return {
      problems: parsed.issues.flatMap(innermost).map((issue) => problemOf(issue, (path) => place(offset(path)))),
    };
  }
  const config = document.has('bundle') ? parsed.output : withReleasePath(parsed.output);
  const mistakes = [...probeMistakes(config), ...sourceMistakes(config)];
  if (mistakes.length === 0) return config;
  return { problems: mistakes.map(({ path, why }) => invalid(place(offsetOf(document, path)), why)) };
}

/** Where a source is set, the bundle directory is what is fetched. */
const withReleasePath = (config: SluicedConfig): SluicedConfig =>
  config.source ? { ...config, bundle: releasePath(config.source) } : config;

/** Refuses aliases: no config needs them, and they expand a short text to a large value. */
function plainValue(document: ReturnType<typeof parseDocument>): { plain: unknown } | { alias: string } {
  try {
    return { plain: document.toJS({ maxAliasCount: 0, mapAsMap: false }) };
  } catch (error) {
    return { alias: `aliases (*name) are not allowed (${error instanceof Error ? error.message : String(error)})` };
  }
}

type Issue = v.InferIssue<typeof configSchema>;

/** A union only reports that no member matches; the problem is in the member that comes closest. */
function innermost(issue: Issue): readonly Issue[] {
  const inner = (issue.issues ?? []) as readonly Issue[];
  if (issue.type !== 'union' || inner.length === 0) return [issue];
  const named = inner.filter((one) => !isMissingKind(one) && one.type !== 'strict_object');
  // No member has it: a misspelt field, of which each member knows only that it is not its own.
  const path = (issue.path ?? []).map(({ key }) => key);
  const unknown = inner.find(
    (one) => isUnknown(one) && !fieldsAt(configSchema, path).includes(String(one.path?.[0]?.key)),
  );
  const chosen = unknown ? [unknown] : named.length > 0 ? named : inner.slice(0, 1);
  return chosen.map((one) => ({ ...one, path: [...(issue.path ?? []), ...(one.path ?? [])] }) as Issue);
}

const isUnknown = ({ type, expected }: Issue): boolean => type === 'strict_object' && expected === 'never';

/** A member of another kind, such as the http probe when the probe has `tcp`. */
const isMissingKind = ({ input }: Issue): boolean => input === undefined;

function problemOf(issue: Issue, place: (path: readonly unknown[]) => Place): Problem {
  const path = (issue.path ?? []).map((item) => item.key);
  const field = path.map(String).join('.');
  if (issue.type === 'strict_object' && isMissingKind(issue)) return invalid(place(path), `${field} is missing`);
  if (!isUnknown(issue)) return invalid(place(path), `${field === '' ? 'it' : field}: ${issue.message}`);
  const [key, fields] = [String(path.at(-1)), fieldsAt(configSchema, path.slice(0, -1))];
  return invalid(place(path), `unknown field ${field}`, fields.includes(key) ? undefined : nearest(key, fields));
}

/** @param near the field that was meant */
function invalid(at: Place, why: string, near?: string): Problem {
  return refusal(
    'NODE_CONFIG_INVALID',
    `Cannot read the config: ${why}`,
    near === undefined ? '/usr/share/sluice/sluiced.yaml has every field with its meaning' : `Did you mean ${near}?`,
    { at },
  );
}

/** What a part of a schema may have, as far as fields are found by it. */
interface SchemaPart {
  readonly type?: string;
  readonly entries?: Readonly<Record<string, SchemaPart>>;
  readonly wrapped?: SchemaPart;
  readonly item?: SchemaPart;
  readonly options?: readonly unknown[];
}

/** The fields that the object at a path may have; in a union, those of each member. */
function fieldsAt({ entries = {}, wrapped, item, options }: SchemaPart, path: readonly unknown[]): readonly string[] {
  if (wrapped) return fieldsAt(wrapped, path);
  if (options) return options.flatMap((option) => fieldsAt(option as SchemaPart, path));
  if (item) return fieldsAt(item, path.slice(1));
  return path.length === 0 ? Object.keys(entries) : fieldsAt(entries[String(path[0])] ?? {}, path.slice(1));
}

function offsetOf(document: ReturnType<typeof parseDocument>, path: readonly unknown[]): number {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true) as { range?: readonly number[] } | undefined;
    if (node?.range) return node.range[0] ?? 0;
  }
  return document.contents?.range?.[0] ?? 0;
}

/** What the schema does not see: it is about several fields, or several probes. */
interface Mistake {
  readonly path: readonly (string | number)[];
  readonly why: string;
}

function probeMistakes({ probes }: SluicedConfig): readonly Mistake[] {
  const mistakes: Mistake[] = [];
  for (const [index, { name, attempts, failures = attempts }] of probes.entries()) {
    if (probes.findIndex((probe) => probe.name === name) < index)
      mistakes.push({ path: ['probes', index, 'name'], why: 'another probe has the same name' });
    if (failures > attempts)
      mistakes.push({
        path: ['probes', index, 'failures'],
        why: 'failures is greater than attempts: the probe could never fail',
      });
  }
  return mistakes;
}

function sourceMistakes({ source, signatures, bundle, receipts }: SluicedConfig): readonly Mistake[] {
  const alone = 'receipts.push needs a source: `sluiced fetch` sends receipts';
  if (source === undefined) return receipts.push ? [{ path: ['receipts', 'push'], why: alone }] : [];
  const unsigned = 'source needs `signatures: {policy: required}`: what is fetched is trusted by its signatures alone';
  const elsewhere = `with a source the bundle directory is ${releasePath(source)}: leave bundle out`;
  return [
    ...(signatures.policy === 'none' ? [{ path: ['signatures', 'policy'], why: unsigned }] : []),
    ...(bundle === releasePath(source) ? [] : [{ path: ['bundle'], why: elsewhere }]),
  ];
}
