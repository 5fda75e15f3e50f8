import { escaped } from '@sluice/cli';
import { type Place, type Problem, refusal, warning } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, type Path } from '../render/model/kube.ts';
import { ignoredProblem } from './config/problems.ts';
import type { ControlCharacter } from './control-characters.ts';
import type { SourceDocument } from './parse/documents.ts';
import type { ParseFinding } from './parse/finding.ts';
import { loadLimits } from './parse/limits.ts';
import { LineStarts } from './parse/line-starts.ts';
import type { FoundObject } from './objects.ts';

/** Escapes control and format characters, which can forge terminal output, in text from the input. */
export const printable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, escaped);

/** Converts the findings of the parsers to problems with places. */
export function problemsAt(document: SourceDocument, findings: readonly ParseFinding[]): Problem[] {
  if (findings.length === 0) return [];
  const lines = new LineStarts(document);
  return findings.map(({ code, offset, message, hint }) =>
    refusal(code, printable(message), hint, { at: lines.place(offset) }),
  );
}

export const tooManyDocuments = (file: string, count: number): Problem =>
  refusal(
    'INPUT_TOO_LARGE',
    `Cannot read the file: it has ${count} documents, and the limit is ${loadLimits.documentsMax}`,
    'Split the file, or write one List as JSON',
    { at: { file, line: 1, column: 1 } },
  );

export const controlCharacterProblem = (character: ControlCharacter, at: Place, object: string): Problem =>
  refusal(
    'CONTROL_CHARACTER',
    `Cannot read ${printable(character.path.join('.'))}: it contains the control character ${character.name}`,
    'Remove the character; show invisible characters in the editor to find it',
    { at, object },
  );

/** A kind that is ignored, but probably misspelled. */
export const misspelled = (kind: string, near: string, at: Place): Problem =>
  warning(
    'KIND_UNKNOWN',
    `Cannot read kind ${printable(kind)}: Kubernetes has no such kind, and the object is ignored`,
    `Did you mean ${near}?`,
    { at },
  );

/** The config of an installer that says how kube-proxy runs. */
export const ofInstaller = (kind: string, setting: Path, at: Place): Problem =>
  ignoredProblem(
    at,
    printable(kind),
    [setting],
    'what installs the cluster makes the configuration of kube-proxy of it',
    'Pass that: kubectl get configmap,daemonset,pod -n kube-system -o yaml',
  );

type RefusedObject = Exclude<FoundObject, { is: 'object' | 'kube-proxy' | 'snapshot' | 'ignored' }>;

/** The problem of a refused document. */
export function refusedObject(found: RefusedObject, at: Place): Problem {
  switch (found.is) {
    case 'malformed':
      return refusal(
        'OBJECT_MALFORMED',
        `Cannot read this as a Kubernetes object: ${printable(found.why)}`,
        'Every object needs apiVersion and kind; keep other files, such as Helm values and kustomization.yaml, in another directory',
        { at },
      );
    case 'unknown-version':
      return refusal(
        'API_VERSION_UNKNOWN',
        `Cannot read the ${found.kind}: its apiVersion is "${printable(found.apiVersion)}"`,
        `Convert it to apiVersion: ${found.reads}, such as with kubectl convert`,
        { at },
      );
    case 'sluice-config':
      return warning(
        'CONFIG_INVALID',
        'Cannot use a SluiceConfig in the manifests: it was passed with -f and has no effect',
        'Pass it with -c, and move it out of the directories of -f',
        { at },
      );
  }
}

/** `Service shop/web`, without the parts that the object lacks. */
export function nameOf(kind: string, value: JsonObject): string {
  const metadata = value['metadata'];
  const { namespace, name } = (isMap(metadata) ? metadata : {}) as { namespace?: Json; name?: Json };
  if (typeof name !== 'string') return kind;
  return printable(typeof namespace === 'string' ? `${kind} ${namespace}/${name}` : `${kind} ${name}`);
}
