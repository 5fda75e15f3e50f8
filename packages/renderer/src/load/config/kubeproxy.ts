import { addAll, compareText, modes, type Problem, type Place } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, type Origin, type Path } from '../../render/model/kube.ts';
import { configProblem, findingProblem } from './problems.ts';
import { childOf, type Settings, settingsOf } from './settings.ts';
import { type Locate, readText, type TextOrigin } from './text.ts';
import { unfollowedFields } from './unfollowed.ts';
import { nodePortWords } from '../schema/formats.ts';
import { checkSchema } from '../schema/schema.ts';
import { parseGoDuration } from '../schema/duration.ts';
import { kubeProxySchema } from '../schema/kubeproxy.ts';

/** A KubeProxyConfiguration, or its ConfigMap as made by kubeadm. */
export interface KubeProxyInput {
  readonly value: JsonObject;
  readonly origin: Origin;
  /** The text of the file of the origin; needed for exact places inside the ConfigMap's text. */
  readonly text?: string;
}

interface ReadKubeProxy {
  readonly settings: Settings;
  readonly problems: readonly Problem[];
}

const object = 'KubeProxyConfiguration';
/** The key of kube-proxy's ConfigMap, as kubeadm writes it. */
const configMapKey = 'config.conf';

/**
 * Reads all KubeProxyConfigurations of the input, which must be equal.
 * @returns the settings. Problems are those of kube-proxy (`pkg/proxy/apis/config/validation`), and different configurations
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

/** Extracts the configuration from its ConfigMap, if it is in one. */
function unpack(input: KubeProxyInput): { value?: JsonObject; origin: TextOrigin; problems: readonly Problem[] } {
  const outer: TextOrigin = { place: (path) => input.origin.place(path), keyPlace: (path) => input.origin.place(path) };
  if (input.value['kind'] !== 'ConfigMap') return { value: input.value, origin: outer, problems: [] };
  const path: Path = ['data', configMapKey];
  const inner = childOf(input.value['data'], configMapKey);
  if (typeof inner !== 'string') {
    const why = inner === undefined ? 'it is missing' : 'it is not a string';
    const hint = `Pass kube-proxy's ConfigMap, as printed by kubectl -n kube-system get configmap kube-proxy -o yaml`;
    return { origin: outer, problems: [configProblem(outer.place(path), 'ConfigMap kube-proxy', path, why, hint)] };
  }
  const place = input.origin.place(path);
  const locate: Locate = locateInside(place, input.text);
  const read = readText(place.file, inner, undefined, locate);
  if (read.value === undefined) return { origin: read.origin, problems: read.problems };
  if (typeof read.value === 'object' && read.value !== null && !Array.isArray(read.value)) {
    return { value: read.value as JsonObject, origin: read.origin, problems: [] };
  }
  const why = 'it does not contain a KubeProxyConfiguration';
  return {
    origin: outer,
    problems: [configProblem(place, 'ConfigMap kube-proxy', path, why, 'Write the KubeProxyConfiguration into it')],
  };
}

function twoContents(first: Unpacked, other: Unpacked): Problem {
  const { file, line } = first.origin.place([]);
  const why = `it differs from the one at ${file}:${line}`;
  return configProblem(other.origin.place([]), object, [], why, 'Pass only one of them, or use one file per cluster');
}

/** JSON with sorted keys, to compare without their order. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    isMap(item) ? Object.fromEntries(Object.entries(item).toSorted(([a], [b]) => compareText(a, b))) : item,
  );
}

function check({ value, origin }: Unpacked): ReadKubeProxy {
  const findings = checkSchema(kubeProxySchema, value, { nullIsUnset: true });
  // kube-proxy decodes leniently when strict decoding fails: an unknown field is logged and ignored.
  const problems = findings.map((finding) =>
    findingProblem(finding, origin, object, finding.kind === 'unknown' ? 'warning' : 'error'),
  );
  addAll(problems, repeatedWords(value, origin));
  const short = modes.filter((section) => isPeriodShort(value, section));
  addAll(
    problems,
    short.map((section) => shortPeriod(value, origin, section)),
  );
  const wrong = findings.filter((finding) => finding.kind !== 'missing').map((finding) => finding.path);
  addAll(problems, unfollowedFields(value, origin, [...wrong, ...short.map((section) => [section, 'minSyncPeriod'])]));
  return { settings: settingsOf(value, origin, [], wrong, isUnset), problems };
}

/** `null`, `""` and `[]` are Go's values of unset fields. */
function isUnset(value: Json): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A word must not be repeated in `nodePortAddresses` (`validateKubeProxyNodePortAddress`). One problem per word, at its second place. */
function repeatedWords(value: JsonObject, origin: TextOrigin): readonly Problem[] {
  const list: Json | undefined = value['nodePortAddresses'];
  if (!Array.isArray(list)) return [];
  return nodePortWords.flatMap((word) => {
    const second = list.indexOf(word, list.indexOf(word) + 1);
    if (second <= list.indexOf(word)) return [];
    const path = ['nodePortAddresses', second];
    return [configProblem(origin.place(path), object, path, `${word} is listed twice`, 'Remove one of them')];
  });
}

/** In seconds; 0 means unset. */
function periodsOf(value: JsonObject, section: string): { readonly sync: number; readonly min: number } {
  const seconds = (key: string): number => {
    const text = childOf(value[section], key);
    return (typeof text === 'string' && parseGoDuration(text)) || 0;
  };
  return { sync: seconds('syncPeriod') || 30, min: seconds('minSyncPeriod') };
}

/** syncPeriod defaults to 30s, and minSyncPeriod must not be longer (`validateProxyIPTablesConfiguration` and similar). */
function isPeriodShort(value: JsonObject, section: string): boolean {
  const { sync, min } = periodsOf(value, section);
  return sync >= 0 && min > sync;
}

function shortPeriod(value: JsonObject, origin: TextOrigin, section: string): Problem {
  const path = [section, 'minSyncPeriod'];
  const why = `it is longer than syncPeriod (${periodsOf(value, section).sync}s)`;
  return configProblem(origin.place(path), object, path, why, 'Make minSyncPeriod at most as long as syncPeriod');
}

/**
 * Maps positions inside a string of a YAML file to positions in that file.
 * Exact for a literal block scalar (`config.conf: |`), the usual form of a file inside a ConfigMap. For other strings, such as a quoted
 * one with `\n`, it returns the place of the string.
 * @param place of the string's value: the `|`
 * @param text of the whole file; without it every result is `place`
 */
function locateInside(place: Place, text: string | undefined): Locate {
  const here: Locate = () => place;
  const lines = text?.split(/\r\n|\n/) ?? [];
  const header = /^\|([1-9]?)[-+]?([1-9]?)[-+]?\s*(?:#.*)?$/.exec(
    (lines[place.line - 1] ?? '').slice(place.column - 1),
  );
  if (!header) return here;
  const first = lines.slice(place.line).find((line) => line.trim() !== '');
  const indent = /^ */.exec(first ?? '')?.[0].length ?? 0;
  // An indentation indicator counts from the parent's indentation, which the lines alone do not show.
  if (header[1] !== '' || header[2] !== '') return here;
  return (line, column) => ({ file: place.file, line: place.line + line, column: column + indent });
}
