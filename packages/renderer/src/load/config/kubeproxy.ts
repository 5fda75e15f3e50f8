import { addAll, compareText, type Problem } from '@sluice/bundle';
import type { Json, JsonObject, Origin, Path } from '../../render/kube.ts';
import { configProblem, findingProblem } from './problems.ts';
import { childOf, type Settings, settingsOf } from './settings.ts';
import { type Locate, readText, type TextOrigin } from './text.ts';
import { locateInside } from './kubeproxy-place.ts';
import { unfollowedFields } from './unfollowed.ts';
import { nodePortWords } from '../schema/formats.ts';
import { checkSchema } from '../schema/schema.ts';
import { parseGoDuration } from '../schema/duration.ts';
import { kubeProxySchema } from '../schema/kubeproxy.ts';

/** A KubeProxyConfiguration, or the ConfigMap that kubeadm keeps it in. */
export interface KubeProxyInput {
  readonly value: JsonObject;
  readonly origin: Origin;
  /** The text of the file that the origin's places point into; with it, places inside the ConfigMap's text are exact. */
  readonly text?: string;
}

export interface ReadKubeProxy {
  readonly settings: Settings;
  readonly problems: readonly Problem[];
}

const object = 'KubeProxyConfiguration';
/** The key of kube-proxy's ConfigMap, as kubeadm writes it. */
const configMapKey = 'config.conf';

/**
 * Reads every KubeProxyConfiguration of the input; all must say the same.
 * @returns what it sets. Problems are kube-proxy's own (`pkg/proxy/apis/config/validation`), and two different contents
 */
export function readKubeProxy(inputs: readonly KubeProxyInput[]): ReadKubeProxy {
  const problems: Problem[] = [];
  const found: Unpacked[] = [];
  for (const input of inputs) {
    const unpacked = unpack(input);
    addAll(problems, unpacked.problems);
    if (unpacked.value) found.push({ value: unpacked.value, origin: unpacked.origin });
  }
  const [first, ...others] = found;
  if (!first) return { settings: new Map(), problems };
  const content = canonical(first.value);
  const other = others.find((candidate) => canonical(candidate.value) !== content);
  if (other) problems.push(twoContents(first, other));
  const checked = check(first);
  return { settings: checked.settings, problems: [...problems, ...checked.problems] };
}

interface Unpacked {
  readonly value: JsonObject;
  readonly origin: TextOrigin;
}

/** Takes the configuration out of its ConfigMap, if it is in one. */
function unpack(input: KubeProxyInput): { value?: JsonObject; origin: TextOrigin; problems: readonly Problem[] } {
  const outer: TextOrigin = { place: (path) => input.origin.place(path), keyPlace: (path) => input.origin.place(path) };
  if (input.value['kind'] !== 'ConfigMap') return { value: input.value, origin: outer, problems: [] };
  const path: Path = ['data', configMapKey];
  const inner = childOf(input.value['data'], configMapKey);
  if (typeof inner !== 'string') {
    const why = inner === undefined ? 'it is missing' : 'it is not a text';
    const hint = `Give kube-proxy's own ConfigMap, as kubectl -n kube-system get configmap kube-proxy -o yaml prints it`;
    return { origin: outer, problems: [configProblem(outer.place(path), 'ConfigMap kube-proxy', path, why, hint)] };
  }
  const place = input.origin.place(path);
  const locate: Locate = locateInside(place, input.text);
  const read = readText(place.file, inner, undefined, locate);
  if (read.value === undefined) return { origin: read.origin, problems: read.problems };
  if (typeof read.value === 'object' && read.value !== null && !Array.isArray(read.value)) {
    return { value: read.value as JsonObject, origin: read.origin, problems: [] };
  }
  const why = 'it holds no KubeProxyConfiguration';
  return {
    origin: outer,
    problems: [configProblem(place, 'ConfigMap kube-proxy', path, why, 'Give kube-proxy its own config')],
  };
}

function twoContents(first: Unpacked, other: Unpacked): Problem {
  const { file, line } = first.origin.place([]);
  const why = `it differs from the one at ${file}:${line}`;
  return configProblem(other.origin.place([]), object, [], why, 'Give one of the two, or write one file per cluster');
}

/** Sorted JSON, so that the order of keys does not count. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).toSorted(([a], [b]) => compareText(a, b)))
      : item,
  );
}

function check({ value, origin }: Unpacked): ReadKubeProxy {
  const findings = checkSchema(kubeProxySchema, value, { nullIsUnset: true });
  // kube-proxy decodes leniently when strict decoding fails: an unknown field is logged and passed over.
  const problems = findings.map((finding) =>
    findingProblem(finding, origin, object, finding.kind === 'unknown' ? 'warning' : 'error'),
  );
  addAll(problems, repeatedWords(value, origin));
  const short = ['iptables', 'ipvs', 'nftables'].filter((section) => isPeriodShort(value, section));
  addAll(
    problems,
    short.map((section) => shortPeriod(value, origin, section)),
  );
  const wrong = findings.filter((finding) => finding.kind !== 'missing').map((finding) => finding.path);
  addAll(problems, unfollowedFields(value, origin, [...wrong, ...short.map((section) => [section, 'minSyncPeriod'])]));
  return { settings: settingsOf(value, origin, [], wrong, isUnset), problems };
}

/** `null`, `""` and `[]` are what Go leaves in a field that nobody set. */
function isUnset(value: Json): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A word stands once in `nodePortAddresses` (`validateKubeProxyNodePortAddress`). One problem for each word, at its second place. */
function repeatedWords(value: JsonObject, origin: TextOrigin): readonly Problem[] {
  const list: Json | undefined = value['nodePortAddresses'];
  if (!Array.isArray(list)) return [];
  return nodePortWords.flatMap((word) => {
    const second = list.indexOf(word, list.indexOf(word) + 1);
    if (second <= list.indexOf(word)) return [];
    const path = ['nodePortAddresses', second];
    return [configProblem(origin.place(path), object, path, `${word} is there twice`, 'Remove one of the two')];
  });
}

/** In seconds; 0 is not set. */
function periodsOf(value: JsonObject, section: string): { readonly sync: number; readonly min: number } {
  const seconds = (key: string): number => {
    const text = childOf(value[section], key);
    return (typeof text === 'string' && parseGoDuration(text)) || 0;
  };
  return { sync: seconds('syncPeriod') || 30, min: seconds('minSyncPeriod') };
}

/** syncPeriod is 30s when it is zero, and minSyncPeriod must not be longer (`validateProxyIPTablesConfiguration` and its like). */
function isPeriodShort(value: JsonObject, section: string): boolean {
  const { sync, min } = periodsOf(value, section);
  return sync >= 0 && min > sync;
}

function shortPeriod(value: JsonObject, origin: TextOrigin, section: string): Problem {
  const path = [section, 'minSyncPeriod'];
  const why = `it is longer than syncPeriod (${periodsOf(value, section).sync}s)`;
  return configProblem(origin.place(path), object, path, why, 'Make minSyncPeriod at most as long as syncPeriod');
}
