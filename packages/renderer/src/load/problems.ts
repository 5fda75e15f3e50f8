import type { Place, Problem } from '@sluice/bundle';
import type { Json, JsonObject } from '../render/kube.ts';
import type { ControlCharacter } from './control-characters.ts';
import type { SourceDocument } from './parse/documents.ts';
import type { Finding } from './parse/finding.ts';
import { loadLimits } from './limits.ts';
import { LineStarts } from './parse/line-starts.ts';
import type { Found } from './objects.ts';

/** Text from the input for a message: control and format characters, which can rewrite what a terminal shows, become escapes. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    return `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`;
  });
}

/** What the parsers found, with places. */
export function problemsAt(document: SourceDocument, findings: readonly Finding[]): Problem[] {
  if (findings.length === 0) return [];
  const lines = new LineStarts(document);
  return findings.map(({ code, offset, message, hint }) => ({
    code,
    level: 'error',
    at: lines.place(offset),
    message: printable(message),
    hint,
  }));
}

export function tooManyDocuments(file: string, count: number): Problem {
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    at: { file, line: 1, column: 1 },
    message: `Cannot read the file: it has ${count} documents, and ${loadLimits.documentsMax} are the limit`,
    hint: 'Split the file, or write one List as JSON',
  };
}

export function controlCharacterProblem(character: ControlCharacter, at: Place, object: string): Problem {
  return {
    code: 'CONTROL_CHARACTER',
    level: 'error',
    at,
    object,
    message: `Cannot read ${printable(character.path.join('.'))}: it holds the control character ${character.name}`,
    hint: 'Remove the character; an editor that shows invisible characters finds it',
  };
}

/** A kind that is passed over, though it is spelled almost like one that is read. */
export function misspelled(kind: string, near: string, at: Place): Problem {
  return {
    code: 'KIND_UNKNOWN',
    level: 'warning',
    at,
    message: `Cannot read kind ${printable(kind)}: Kubernetes knows none of this name, and the object is passed over`,
    hint: `Did you mean ${near}?`,
  };
}

type Refused = Exclude<Found, { is: 'object' | 'kube-proxy' | 'snapshot' | 'passed-over' }>;

/** What a document is refused for. */
export function refusal(found: Refused, at: Place): Problem {
  switch (found.is) {
    case 'malformed':
      return {
        code: 'OBJECT_MALFORMED',
        level: 'error',
        at,
        message: `Cannot take this as a Kubernetes object: ${printable(found.why)}`,
        hint: 'Every object has apiVersion and kind; keep Helm values, kustomization.yaml and the like in another directory',
      };
    case 'unknown-version':
      return {
        code: 'API_VERSION_UNKNOWN',
        level: 'error',
        at,
        message: `Cannot read the ${found.kind}: its apiVersion is "${printable(found.apiVersion)}"`,
        hint: `Write it as apiVersion: ${found.reads}; kubectl convert does it`,
      };
    case 'sluice-config':
      return {
        code: 'CONFIG_INVALID',
        level: 'warning',
        at,
        message: 'Cannot take a SluiceConfig from the manifests: it was passed with -f and has no effect there',
        hint: 'Pass it with -c, and keep it out of the directories of -f',
      };
  }
}

/** `Service shop/web`; as much of it as the object tells. */
export function nameOf(kind: string, value: JsonObject): string {
  const metadata = value['metadata'];
  const { namespace, name } = (isObject(metadata) ? metadata : {}) as { namespace?: Json; name?: Json };
  if (typeof name !== 'string') return kind;
  return printable(typeof namespace === 'string' ? `${kind} ${namespace}/${name}` : `${kind} ${name}`);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
