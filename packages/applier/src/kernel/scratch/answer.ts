import { parsedJson } from '@sluice/bundle';
import * as v from 'valibot';
import { limits } from '../../limits.ts';

/** The parts of a request that a tool loads, in their order. */
export const partNames = ['sets', 'servers', 'ipv4', 'ipv6', 'nft'] as const;
export type PartName = (typeof partNames)[number];

const why = v.pipe(v.string(), v.maxLength(limits.rehearsalLineBytesMax));
const schema = v.variant('answer', [
  v.strictObject({ answer: v.literal('good') }),
  v.strictObject({ answer: v.literal('refused'), part: v.picklist(partNames), why }),
  v.strictObject({ answer: v.literal('invalid'), why }),
  v.strictObject({ answer: v.literal('failed'), why }),
]);

/**
 * The result of a rehearsal:
 * - `good`: everything was loaded.
 * - `refused`: a tool ran to its end and refused this part.
 * - `invalid`: the request violates the grammar; nothing of that part was committed after that place.
 * - `failed`: a tool is missing or was killed, or rules must not be loaded here.
 */
export type RehearsalAnswer = v.InferOutput<typeof schema>;

/** One line of JSON, whatever tools printed. */
export function printAnswer(answer: RehearsalAnswer): string {
  return `${JSON.stringify('why' in answer ? { ...answer, why: plain(answer.why) } : answer)}\n`;
}

/** @returns undefined for a text that is no answer. Output of tools in it is made printable again: the sender may not be our unit. */
export function readAnswer(text: string): RehearsalAnswer | undefined {
  if (text.length > limits.rehearsalAnswerBytesMax || text.indexOf('\n') !== text.length - 1) return undefined;
  const parsed = v.safeParse(schema, parsedJson(text));
  if (!parsed.success) return undefined;
  return 'why' in parsed.output ? { ...parsed.output, why: plain(parsed.output.why) } : parsed.output;
}

/** Printable ASCII, shortened for a log line. */
function plain(text: string): string {
  return text
    .replaceAll(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, limits.reasonCharactersMax);
}
