import type { ClientRequest } from 'node:http';
import type { Access, CredentialPatience } from '../access.ts';
import { startRequest, isAboutTrust, urlOf, onAbort } from '../request.ts';

// The client library ignores lines that are no events, truncated events and errors of its callback, so changes would be lost without a
// report. It does not bound an event, nor tell when a stream opens, nor time out an unanswered request earlier than a silent stream:
// client-node.test.ts, "watch/stream.ts". client-node-equal.test.ts compares the events of both.

/** How a stream ended; the reflector decides how to continue. */
export type StreamEnd =
  /** The server refused it with this status. */
  | { readonly kind: 'refused'; readonly status: number }
  /** The server ended it normally, as after the requested time. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'lost'; readonly why: string; readonly isAboutTrust: boolean }
  /** The open stream was silent for too long: events may have been lost. */
  | { readonly kind: 'silent' };

interface StreamBounds extends Pick<CredentialPatience, 'credentialTimeoutMs'> {
  /** Maximum time until the server opens the stream. */
  readonly requestTimeoutMs: number;
  /** Maximum time without data after that; bookmarks arrive every minute. */
  readonly silenceMs: number;
  readonly lineBytesMax: number;
}

interface StreamReader {
  /** The server accepted the request. */
  readonly onOpen: () => void;
  /** Called for every line, in order; when it throws the stream is lost. */
  readonly onLine: (line: string) => void;
}

/**
 * Reads a watch: one JSON text per line.
 * @param signal ends the stream
 * @throws ClusterFailure when there are no credentials
 */
export async function readStream(
  access: Access,
  path: string,
  reader: StreamReader,
  bounds: StreamBounds,
  signal: AbortSignal,
): Promise<StreamEnd> {
  const options = await access.options({ ...bounds, signal });
  return new Promise((resolve) => {
    // A separate timer: that of a request starts with its socket, which a proxy that opens no tunnel never provides.
    const unopened = `no response within ${bounds.requestTimeoutMs / 1000} s`;
    let timer = setTimeout(() => finish(lost(new Error(unopened))), bounds.requestTimeoutMs);
    let asked: ClientRequest | undefined;
    let forget = (): void => {};
    let isOver = false;
    const finish = (end: StreamEnd): void => {
      isOver = true;
      clearTimeout(timer);
      forget();
      resolve(end);
      if (end.kind !== 'ended') asked?.destroy();
    };
    const fail = (error: Error): void => finish(lost(error));
    // The signal lives as long as the program: a finished stream must remove its listener.
    forget = onAbort(signal, fail);
    const timeout = bounds.requestTimeoutMs;
    asked = startRequest(urlOf(access, path), { ...options, method: 'GET', signal, timeout }, fail, (response) => {
      if (response.statusCode !== 200) {
        finish({ kind: 'refused', status: response.statusCode ?? 0 });
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(() => finish({ kind: 'silent' }), bounds.silenceMs);
      reader.onOpen();
      const lines = new LineSplitter(reader.onLine, bounds.lineBytesMax);
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        if (isOver) return;
        timer.refresh();
        try {
          lines.take(text);
        } catch (error) {
          fail(error instanceof Error ? error : new Error(String(error)));
        }
      });
      response.on('error', fail);
      response.on('end', () => finish(lines.isWhole ? { kind: 'ended' } : lost(new Error('truncated watch event'))));
    });
    asked?.setHeader('accept', 'application/json');
    // Keep-alive detects a peer that vanished; one that hangs is detected by its silence.
    asked?.on('socket', (socket) => socket.setKeepAlive(true, 15_000));
    asked?.end();
  });
}

function lost(error: Error): StreamEnd {
  return { kind: 'lost', why: error.message, isAboutTrust: isAboutTrust(error) };
}

/** Splits chunks into lines. */
class LineSplitter {
  readonly #onLine: (line: string) => void;
  readonly #max: number;
  #rest = '';

  constructor(onLine: (line: string) => void, max: number) {
    this.#onLine = onLine;
    this.#max = max;
  }

  /** Whether the data ended with a complete line. */
  get isWhole(): boolean {
    return this.#rest === '';
  }

  take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > this.#max) throw new Error(`a watch event is larger than ${this.#max} bytes`);
    for (const line of lines) if (line !== '') this.#onLine(line);
  }
}
