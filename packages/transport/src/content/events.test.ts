import { expect, test } from 'vitest';
import { eventLimits, heartbeat, printEvent, readEvents } from './events.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const event = (etag: string): string => printEvent({ etag, digest, serial: 7 });

async function* stream(...chunks: readonly (string | Buffer)[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

/** The events of a stream, and why it ended. @param secondsAChunk between two chunks */
async function read(chunks: readonly (string | Buffer)[], secondsAChunk = 0): Promise<readonly string[]> {
  const found: string[] = [];
  let nowMs = 0;
  const clock = (): number => (nowMs += secondsAChunk * 1000);
  try {
    for await (const etag of readEvents('its events', stream(...chunks), clock)) found.push(etag);
  } catch (error) {
    found.push((error as Error).message);
  }
  return found;
}

test('events are read, whatever the chunks, with heartbeats and events of other kinds between them', async () => {
  const text = `${event('"one"')}${heartbeat}retry: 5\nevent: other\nid: "x"\ndata: y\n\n${event('"two"')}`;
  expect(await read([text])).toEqual(['"one"', '"two"']);
  expect(await read(Array.from(text))).toEqual(['"one"', '"two"']);
  expect(await read([text.replaceAll('\n', '\r\n')])).toEqual(['"one"', '"two"']);
});

test('an event that is cut counts for nothing', async () => {
  expect(await read([event('"one"').slice(0, -1)])).toEqual([]);
});

const bad = 'Cannot use its events: an event of it has no ETag or no digest';

test.each([
  ['without an ETag', event('one'), bad],
  ['with a line feed in it', event('"one\r"'), bad],
  ['with an ETag of 200 characters', event(`"${'x'.repeat(200)}"`), bad],
  ['without a digest', event('"one"').replace(digest, 'sha256:x'), bad],
  ['whose data are not JSON', 'event: release\nid: "one"\ndata: {\n\n', bad],
  ['whose data are null', 'event: release\nid: "one"\ndata: null\n\n', bad],
  [
    'of one endless line',
    `data: ${'x'.repeat(eventLimits.lineBytesMax)}`,
    `Cannot use its events: a line of it has more than ${eventLimits.lineBytesMax} bytes`,
  ],
])('a stream ends at an event %s', async (_title, text, why) => {
  expect(await read([event('"good"'), text, event('"after"')])).toEqual(['"good"', why]);
});

test('a stream ends that has more bytes than events could have', async () => {
  const flood = Array.from({ length: 200 }, () => heartbeat.repeat(200));
  const why = `Cannot use its events: it has more than ${eventLimits.bytesPerSecondMax} bytes per second`;
  expect(await read(flood)).toEqual([why]);
  expect(await read(flood, 1)).toEqual([]);
});
