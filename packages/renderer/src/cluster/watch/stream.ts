import type { ClientRequest } from 'node:http';
import type { Access, CredentialPatience } from '../access.ts';
import { begin, isAboutTrust, urlOf, whenGivenUp } from '../request.ts';

/** How a stream ended. All endings are followed by another try; which one, is for the reader to decide. */
export type StreamEnd =
  /** The server refused it with this status. */
  | { readonly kind: 'refused'; readonly status: number }
  /** The server ended it in order, as it does after the time that was asked for. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'lost'; readonly why: string; readonly isAboutTrust: boolean }
  /** It was open, and for too long nothing came: what happened meanwhile is not known. */
  | { readonly kind: 'silent' };

export interface StreamBounds extends Pick<CredentialPatience, 'credentialTimeoutMs'> {
  /** So long the server may take until it opens the stream. */
  readonly requestTimeoutMs: number;
  /** So long nothing may come then; bookmarks come once a minute. */
  readonly silenceMs: number;
  readonly lineBytesMax: number;
}

export interface StreamReader {
  /** The server took the request. */
  readonly onOpen: () => void;
  /** Called for every line, in order; when it throws the stream is lost. */
  readonly onLine: (line: string) => void;
}

/**
 * Reads a watch: one JSON text a line.
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
    // A timer of its own: that of a request begins with its socket, which a proxy that opens no tunnel keeps away for ever.
    const unopened = `no answer within ${bounds.requestTimeoutMs / 1000} s`;
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
    // The signal lives as long as the program: nothing of a stream that ended may hang on it.
    forget = whenGivenUp(signal, fail);
    const timeout = bounds.requestTimeoutMs;
    asked = begin(urlOf(access, path), { ...options, method: 'GET', signal, timeout }, fail, (response) => {
      if (response.statusCode !== 200) {
        finish({ kind: 'refused', status: response.statusCode ?? 0 });
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(() => finish({ kind: 'silent' }), bounds.silenceMs);
      reader.onOpen();
      const lines = new Lines(reader.onLine, bounds.lineBytesMax);
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
      response.on('end', () => finish(lines.isWhole ? { kind: 'ended' } : lost(new Error('an event has no end'))));
    });
    asked?.setHeader('accept', 'application/json');
    // A peer that vanished answers no probe of the kernel; one that hangs is seen by its silence.
    asked?.on('socket', (socket) => socket.setKeepAlive(true, 15_000));
    asked?.end();
  });
}

function lost(error: Error): StreamEnd {
  return { kind: 'lost', why: error.message, isAboutTrust: isAboutTrust(error) };
}

/** Cuts what comes in pieces into lines. */
class Lines {
  readonly #onLine: (line: string) => void;
  readonly #max: number;
  #rest = '';

  constructor(onLine: (line: string) => void, max: number) {
    this.#onLine = onLine;
    this.#max = max;
  }

  /** Nothing came behind the last line. */
  get isWhole(): boolean {
    return this.#rest === '';
  }

  take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > this.#max) throw new Error(`an event has more than ${this.#max} bytes`);
    for (const line of lines) if (line !== '') this.#onLine(line);
  }
}
