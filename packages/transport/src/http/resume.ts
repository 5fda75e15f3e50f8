import type { HttpResponse } from './exchange.ts';

// Only a strong `ETag` says that bytes are the same: RFC 9110, section 13.1.5.
const strongEtag = ({ headers: { etag } }: HttpResponse): string | undefined =>
  etag?.startsWith('"') ? etag : undefined;

/** The headers of a request for the rest of a body (RFC 9110, section 14.2); none without a start. */
export function rangeHeaders(start: HttpResponse | undefined): Readonly<Record<string, string>> {
  if (start === undefined || start.body.length === 0) return {};
  const etag = strongEtag(start);
  return { range: `bytes=${start.body.length}-`, ...(etag === undefined ? {} : { 'if-range': etag }) };
}

/**
 * The response with the whole body, of its start and the response to a request for the rest. A server may send all of it instead (200).
 * @returns undefined where it sent another part, or of another version: the body has to be requested from its start
 */
export function joined(start: HttpResponse | undefined, answer: HttpResponse): HttpResponse | undefined {
  if (start === undefined || ![206, 416].includes(answer.status)) return answer;
  const [before, etag] = [strongEtag(start), strongEtag(answer)];
  const isSame = before === undefined || etag === undefined || etag === before;
  const [, from] = /^bytes (\d{1,15})-\d{1,15}\/(?:\d{1,15}|\*)$/.exec(answer.headers['content-range'] ?? '') ?? [];
  if (answer.status === 416 || !isSame || Number(from) !== start.body.length) return undefined;
  return { ...start, body: Buffer.concat([start.body, answer.body]) };
}
