import * as v from 'valibot';
import { limits } from '../../limits.ts';

/** The parts of a request that a tool loads, in the order in which they travel. */
export const partNames = ['sets', 'servers', 'ipv4', 'ipv6'] as const;
export type PartName = (typeof partNames)[number];

const why = v.pipe(v.string(), v.maxLength(limits.rehearsalLineBytesMax));
const schema = v.variant('answer', [
  v.strictObject({ answer: v.literal('good') }),
  v.strictObject({ answer: v.literal('refused'), part: v.picklist(partNames), why }),
  v.strictObject({ answer: v.literal('invalid'), why }),
  v.strictObject({ answer: v.literal('failed'), why }),
]);

/**
 * How a rehearsal ended, as the far end says it:
 * - `good`: everything was loaded.
 * - `refused`: a tool ran to its end and did not take this part.
 * - `invalid`: the request is not of the grammar; nothing of that part was committed behind the place.
 * - `failed`: a tool is missing, was ended, or this is no place to load rules.
 */
export type Answer = v.InferOutput<typeof schema>;

/** One line of JSON, whatever tools said in it. */
export function printAnswer(answer: Answer): string {
  return `${JSON.stringify('why' in answer ? { ...answer, why: plain(answer.why) } : answer)}\n`;
}

/** The answer in what came; undefined when it is none. Words of tools in it are made printable again: whoever sent them may not be the far end. */
export function readAnswer(text: string): Answer | undefined {
  if (text.length > limits.rehearsalAnswerBytesMax || text.indexOf('\n') !== text.length - 1) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const parsed = v.safeParse(schema, value);
  if (!parsed.success) return undefined;
  return 'why' in parsed.output ? { ...parsed.output, why: plain(parsed.output.why) } : parsed.output;
}

/** Printable ASCII, and not more of it than a log line should have. */
function plain(text: string): string {
  return text
    .replaceAll(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, limits.reasonCharactersMax);
}
