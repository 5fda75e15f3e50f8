import { addAll, compareProblems, compareText, type Problem, type Place, refusal } from '@sluice/netfilter';
import type { JsonObject, KubeObject, Origin, Path } from '../render/model/kube.ts';
import { findControlCharacters } from './control-characters.ts';
import { splitDocuments } from './parse/documents.ts';
import { isKubeProxyInput, type KubeProxyInput } from './config/kube-proxy-sources.ts';
import { loadLimits } from './parse/limits.ts';
import { type FoundObject, findObjects } from './objects.ts';
import { PlaceFinder } from './origin.ts';
import { type ParsedDocument, parseDocument } from './parse/parse.ts';
import {
  controlCharacterProblem,
  misspelled,
  nameOf,
  ofInstaller,
  printable,
  problemsAt,
  refusedObject,
  tooManyDocuments,
} from './problems.ts';
import type { SourceFile } from './sources.ts';

/** The objects of the input, in the order of the sources and of the documents in each. */
interface Loaded {
  readonly objects: readonly KubeObject[];
  /** KubeProxyConfigurations, alone or inside their ConfigMap, for `readKubeProxy`. */
  readonly kubeProxy: readonly KubeProxyInput[];
  /** For each snapshot, whether it contains every Service of its cluster. */
  readonly snapshots: readonly boolean[];
  /** The number of ignored objects of other kinds, by kind in byte order. */
  readonly ignored: ReadonlyMap<string, number>;
  /** All problems, in the order of the files. */
  readonly problems: readonly Problem[];
}

/** Reads every document of every source. Never throws because of input: unreadable input becomes a problem with its place. */
export function load(sources: readonly SourceFile[]): Loaded {
  const loader = new Loader();
  for (const source of sources) {
    const documents = splitDocuments(source.file, source.text);
    if (documents.length > loadLimits.documentsMax) {
      loader.problems.push(tooManyDocuments(source.file, documents.length));
      continue;
    }
    for (const document of documents) {
      for (const parsed of parseDocument(document)) loader.add(parsed, source);
    }
  }
  return loader.loaded();
}

class Loader {
  readonly problems: Problem[] = [];
  private readonly objects: KubeObject[] = [];
  private readonly kubeProxy: KubeProxyInput[] = [];
  private readonly snapshots: boolean[] = [];
  private readonly ignored = new Map<string, number>();
  /** Of what installers make the configuration of kube-proxy: a problem where that itself is not given. */
  private readonly installers: Problem[] = [];
  private readonly places = new PlaceFinder();

  loaded(): Loaded {
    return {
      objects: this.objects,
      kubeProxy: this.kubeProxy,
      snapshots: this.snapshots,
      ignored: new Map([...this.ignored].toSorted(([a], [b]) => compareText(a, b))),
      problems: [...this.problems, ...(this.kubeProxy.length === 0 ? this.installers : [])].toSorted(compareProblems),
    };
  }

  add(parsed: ParsedDocument, source: SourceFile): void {
    const { document } = parsed;
    if (parsed.errors.length > 0) addAll(this.problems, problemsAt(document, parsed.errors));
    if (parsed.value === undefined) return;
    for (const found of findObjects(parsed.value)) this.sort(found, parsed, source);
  }

  /** Adds one object to its list. */
  private sort(found: FoundObject, parsed: ParsedDocument, source: SourceFile): void {
    switch (found.is) {
      case 'object':
        if (!this.isPresentable(found.value, found.path, parsed, nameOf(found.kind, found.value))) return;
        this.objects.push(objectOf(found, this.places.origin(parsed, found.path)));
        if (isKubeProxyInput(found.value, found.kind, ''))
          this.kubeProxy.push({ value: found.value, origin: this.places.origin(parsed, found.path) });
        return;
      case 'kube-proxy':
        if (!this.isPresentable(found.value, found.path, parsed, 'KubeProxyConfiguration')) return;
        this.kubeProxy.push({ value: found.value, origin: this.places.origin(parsed, found.path), text: source.text });
        return;
      case 'snapshot':
        this.enterSnapshot(found.value, parsed, found.path);
        return;
      case 'ignored':
        if (found.near) this.problems.push(misspelled(found.kind, found.near, this.places.place(parsed, found.path)));
        if (found.setting)
          this.installers.push(ofInstaller(found.kind, found.setting, this.places.place(parsed, found.path)));
        this.countIgnored(printable(found.kind));
        return;
      case 'unknown-version':
        this.problems.push(refusedObject(found, this.places.place(parsed, [...found.path, 'apiVersion'])));
        return;
      case 'malformed':
      case 'sluice-config':
        this.problems.push(refusedObject(found, this.places.place(parsed, found.path)));
    }
  }

  private enterSnapshot(header: JsonObject, parsed: ParsedDocument, path: Path): void {
    const problem = otherFormat(header, this.places.place(parsed, [...path, 'format']));
    if (problem !== undefined) this.problems.push(problem);
    this.snapshots.push(header['complete'] === true);
  }

  private countIgnored(kind: string): void {
    this.ignored.set(kind, (this.ignored.get(kind) ?? 0) + 1);
  }

  /**
   * Reports problems that only matter in objects that Sluice reads: ambiguous values and control characters.
   *
   * @returns whether the object may be used. One with ambiguous values may, so that its other problems are found in the same run; one with
   * control characters may not, because its strings would appear in messages.
   */
  private isPresentable(value: JsonObject, path: Path, parsed: ParsedDocument, object: string): boolean {
    const doubts = parsed.doubts.filter((doubt) => startsWith(doubt.path, path));
    for (const problem of problemsAt(parsed.document, doubts)) this.problems.push({ ...problem, object });
    const characters = findControlCharacters(value);
    for (const character of characters) {
      const at = this.places.place(parsed, [...path, ...character.path]);
      this.problems.push(controlCharacterProblem(character, at, object));
    }
    return characters.length === 0;
  }
}

function objectOf({ kind, apiVersion, value }: FoundObject & { is: 'object' }, origin: Origin): KubeObject {
  return { kind, apiVersion, value, origin };
}

function startsWith(path: Path, start: Path): boolean {
  return start.every((key, index) => path[index] === key);
}

/** The only snapshot format: objects as in the API server, without irrelevant fields. */
const format = { apiVersion: 'sluice.dev/v1alpha1', number: 1 } as const;

/** Returns a problem for a snapshot header of an unknown format. */
function otherFormat(header: JsonObject, at: Place): Problem | undefined {
  if (header['apiVersion'] === format.apiVersion && header['format'] === format.number) return undefined;
  const found = `${JSON.stringify(header['apiVersion'] ?? null)}, format ${JSON.stringify(header['format'] ?? null)}`;
  return refusal(
    'API_VERSION_UNKNOWN',
    `Cannot read the Snapshot: its format is ${printable(found)}, and this program reads ${format.apiVersion}, format ${format.number}`,
    'Take the snapshot again with this program, or render with the version of sluice that took it',
    { at },
  );
}
