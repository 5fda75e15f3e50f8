import { type Place, type Problem, type ProblemCode, refusal } from '@sluice/netfilter';
import {
  type Document,
  isMap,
  isNode,
  isPair,
  isScalar,
  LineCounter,
  parseDocument,
  type Range,
  type YAMLParseError,
} from 'yaml';
import type { Json, Origin, Path } from '../../render/model/kube.ts';

/** Maps a position in the text of a document to a place in its file. */
export type Locate = (line: number, column: number) => Place;

/** An origin that also knows the places of keys. */
export interface TextOrigin extends Origin {
  /** The place of the key at the end of `path`, or of the nearest value when there is no such key. */
  keyPlace(path: Path): Place;
}

interface ReadText {
  /** Absent when the text cannot be parsed. */
  readonly value?: Json;
  readonly origin: TextOrigin;
  readonly problems: readonly Problem[];
}

/** The kind of a text: its name in problems, and a hint for a text of another kind. */
export interface TextSubject {
  /** As in `Cannot read the config`. */
  readonly name: string;
  /** The hint for a text that is too large or too deeply nested. */
  readonly hint: string;
}

const config: TextSubject = { name: 'config', hint: 'Pass the config file with -c' };

/** Hand-written files are smaller; a larger one is a mistake. */
const bytesMax = 1024 * 1024;
const aliasesMax = 100;
/** Later errors are usually consequences of the earlier ones. */
const errorsMax = 20;

/**
 * Parses one YAML 1.2 document, or JSON, and keeps the places of its keys and values.
 * @param subject the kind of the text
 * @param locate maps a position in `text` to one in the file, when `text` is only a part of it
 * @returns the value, or all problems that prevent parsing
 */
export function readText(
  file: string,
  text: string,
  subject: TextSubject = config,
  locate: Locate = (line, column) => ({ file, line, column }),
): ReadText {
  const lines = new LineCounter();
  const at = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return locate(Math.max(1, line), Math.max(1, col));
  };
  if (text.length > bytesMax) {
    const message = `Cannot read the ${subject.name}: it is longer than ${bytesMax} characters`;
    return nothing(locate, { code: 'INPUT_TOO_LARGE', message, hint: subject.hint });
  }
  try {
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true, merge: true });
    const origin = originOf(document, at);
    const problems = document.errors.slice(0, errorsMax).map((error) => yamlProblem(subject, error, at(error.pos[0])));
    if (problems.length > 0) return { origin, problems };
    return { value: document.toJS({ maxAliasCount: aliasesMax }) as Json, origin, problems };
  } catch (error) {
    return nothing(locate, explain(subject, error));
  }
}

type ProblemText = Pick<Problem, 'code' | 'message' | 'hint'>;

function nothing(locate: Locate, words: ProblemText): ReadText {
  const start = locate(1, 1);
  const origin = { place: () => start, keyPlace: () => start };
  return { origin, problems: [{ level: 'error', at: start, ...words }] };
}

/** The library `yaml` throws for aliases that expand too far and overflows the stack on very deep nesting. */
function explain(subject: TextSubject, error: unknown): ProblemText {
  if (error instanceof RangeError) {
    return {
      code: 'INPUT_TOO_LARGE',
      message: `Cannot read the ${subject.name}: it is nested too deeply`,
      hint: subject.hint,
    };
  }
  return {
    code: 'YAML_ALIAS_BOMB',
    message: `Cannot read the ${subject.name}: ${error instanceof Error ? error.message : String(error)}`,
    hint: 'Write the values out instead of using aliases',
  };
}

function yamlProblem(subject: TextSubject, error: YAMLParseError, at: Place): Problem {
  const codes: Readonly<Record<string, ProblemCode>> = {
    DUPLICATE_KEY: 'YAML_DUPLICATE_KEY',
    RESOURCE_EXHAUSTION: 'INPUT_TOO_LARGE',
  };
  const hints: Readonly<Record<string, string>> = {
    DUPLICATE_KEY: 'Keep one of the two keys',
    RESOURCE_EXHAUSTION: `${subject.hint}; this text is nested too deeply`,
    MULTIPLE_DOCS: 'Keep one document; move the others to separate files',
  };
  return refusal(
    codes[error.code] ?? 'YAML_SYNTAX',
    `Cannot read the ${subject.name}: ${error.message.split('\n')[0]}`,
    hints[error.code] ?? 'Fix the YAML at this place',
    { at },
  );
}

function originOf(document: Document.Parsed, at: (offset: number) => Place): TextOrigin {
  const rangeOf = (node: unknown): Range | undefined => (isNode(node) && node.range ? node.range : undefined);
  const offsetOf = (path: Path): number => {
    const node: unknown = path.length === 0 ? document.contents : document.getIn(path, true);
    const range = rangeOf(node);
    if (range) return range[0];
    return path.length === 0 ? 0 : offsetOf(path.slice(0, -1));
  };
  return {
    place: (path) => at(offsetOf(path)),
    keyPlace: (path) => {
      const parent: unknown = path.length < 2 ? document.contents : document.getIn(path.slice(0, -1), true);
      const key = path.at(-1);
      const pair = isMap(parent)
        ? parent.items.find((item) => isPair(item) && isScalar(item.key) && item.key.value === key)
        : undefined;
      const range = rangeOf(pair?.key);
      return at(range ? range[0] : offsetOf(path));
    },
  };
}
