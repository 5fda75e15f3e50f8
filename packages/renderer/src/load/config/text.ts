import { type Place, type Problem, refusal } from '@sluice/netfilter';
import type { Json, Origin, Path } from '../../render/model/kube.ts';
import { splitDocuments } from '../parse/documents.ts';
import { LineStarts } from '../parse/line-starts.ts';
import { Marks } from '../parse/marks.ts';
import { parseYaml } from '../parse/yaml.ts';

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

/** Hand-written files are smaller; a larger one is a mistake. */
const charactersMax = 1024 * 1024;

/**
 * Parses one YAML 1.2 document, or JSON, and keeps the places of its keys and values.
 * @param locate maps a position in `text` to one in the file, when `text` is only a part of it
 * @returns the value, or the problems that prevent parsing
 */
export function readText(
  file: string,
  text: string,
  locate: Locate = (line, column) => ({ file, line, column }),
): ReadText {
  const [document = { file, line: 1, column: 1, text: '' }, second] =
    text.length > charactersMax ? [] : splitDocuments(file, text);
  const lines = new LineStarts(document);
  const marks = new Marks();
  const at = (offset: number): Place => {
    const { line, column } = lines.place(offset);
    return locate(line, column);
  };
  const origin = { place: (path: Path) => at(marks.find(path)), keyPlace: (path: Path) => at(marks.findKey(path)) };
  const refused = (...[code, message, hint, more]: Parameters<typeof refusal>): ReadText => ({
    origin,
    problems: [refusal(code, message, hint, { at: at(0), ...more })],
  });
  if (text.length > charactersMax) {
    const hint = 'Configs and allocations are short: check which file was passed';
    return refused('INPUT_TOO_LARGE', `Cannot read the file: it is longer than ${charactersMax} characters`, hint);
  }
  if (second) {
    const hint = 'Keep one document; move the others to separate files';
    const more = { at: locate(second.line, second.column) };
    return refused('YAML_SYNTAX', 'Cannot read the file: another document begins here', hint, more);
  }
  const { value, errors } = parseYaml(document.text, marks);
  const problems = errors.map(({ code, offset, message, hint }) => refusal(code, message, hint, { at: at(offset) }));
  return { origin, problems, ...(value !== undefined && { value }) };
}
