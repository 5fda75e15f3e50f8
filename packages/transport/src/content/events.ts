import { invalidContent } from '../http/failure.ts';
import { isDigest } from '../registry/reference.ts';

/**
 * How a server of an image layout tells that its `index.json` has changed: server-sent events (WHATWG HTML, "Server-sent events") at
 * `events` beside it. An event is a hint to read `index.json` now: nothing is believed of it, and missing one costs the time until the next
 * look.
 */

export const eventsPath = 'events';
export const eventsType = 'text/event-stream';

/** What an event says. */
export interface ReleaseEvent {
  /** The `ETag` of `index.json`, with its quotation marks. */
  readonly etag: string;
  /** The newest release under the tag, for those who read along. */
  readonly digest: string;
  readonly serial: number;
}

/** A comment, which keeps connections and proxies alive. */
export const heartbeat = ':\n\n';
/** The text of an event on the stream. */
export const printEvent = ({ etag, digest, serial }: ReleaseEvent): string =>
  `event: release\nid: ${etag}\ndata: ${JSON.stringify({ digest, serial })}\n\n`;

export const eventLimits = {
  /** The time between two heartbeats; a follower waits for three of them (`registryLimits.idleTimeoutMs`). */
  heartbeatMs: 10_000,
  lineBytesMax: 1024,
  /** What a stream may have at its start, and further for each second. */
  burstBytesMax: 64 * 1024,
  bytesPerSecondMax: 1024,
} as const;

const etagForm = /^"[\x21\x23-\x7e]{1,128}"$/;

/**
 * Reads a stream of events, within bounds of its lines and of its rate.
 * @param name of the stream, for messages
 * @param nowMs monotonic
 * @returns the `ETag` of each event of a release
 * @throws RegistryFailure (`REGISTRY_INVALID`) for a stream that is none of events, and errors of the stream
 */
export async function* readEvents(
  name: string,
  stream: AsyncIterable<Buffer>,
  nowMs: () => number = () => performance.now(),
): AsyncGenerator<string> {
  const { burstBytesMax, bytesPerSecondMax, lineBytesMax } = eventLimits;
  const startMs = nowMs();
  let bytes = 0;
  let rest = '';
  let event: Record<string, string> = {};
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > burstBytesMax + ((nowMs() - startMs) / 1000) * bytesPerSecondMax)
      throw invalidContent(name, `it has more than ${bytesPerSecondMax} bytes per second`);
    const lines = (rest + chunk.toString('latin1')).split(/\r?\n/);
    rest = lines.pop() ?? '';
    if ([...lines, rest].some((line) => line.length > lineBytesMax))
      throw invalidContent(name, `a line of it has more than ${lineBytesMax} bytes`);
    for (const line of lines) {
      if (line === '') {
        const etag = etagOf(name, event);
        if (etag !== undefined) yield etag;
        event = {};
      } else Object.assign(event, fieldOf(line));
    }
  }
}

/** Of the fields that are known, the last one of each name counts. A comment has none. */
function fieldOf(line: string): Record<string, string> {
  const [, field, value = ''] = /^(event|id|data)(?:: ?(.*))?$/s.exec(line) ?? [];
  return field === undefined ? {} : { [field]: value };
}

/** @returns undefined for an event of another kind @throws RegistryFailure for one of another form */
function etagOf(name: string, { event, id = '', data = '' }: Record<string, string>): string | undefined {
  if (event !== 'release') return undefined;
  if (etagForm.test(id) && isDigest(digestIn(data))) return id;
  throw invalidContent(name, 'an event of it has no ETag or no digest');
}

function digestIn(data: string): unknown {
  try {
    return (JSON.parse(data) as { readonly digest?: unknown } | null)?.digest;
  } catch {
    return undefined;
  }
}
