import { request } from 'node:https';
import type { Access, CredentialPatience } from '../access.ts';
import { isAboutTrust, urlOf } from '../request.ts';

/** How a stream ended. All endings are followed by another try; which one, is for the reader to decide. */
export type StreamEnd =
  /** The server refused it with this status. */
  | { readonly kind: 'refused'; readonly status: number }
  /** The server ended it in order, as it does after the time that was asked for. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'lost'; readonly why: string; readonly isAboutTrust: boolean };

export interface StreamBounds extends Pick<CredentialPatience, 'credentialTimeoutMs'> {
  /** So long nothing may come; bookmarks come once a minute. */
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
    const asked = request(urlOf(access, path), { ...options, method: 'GET', signal }, (response) => {
      if (response.statusCode !== 200) {
        resolve({ kind: 'refused', status: response.statusCode ?? 0 });
        asked.destroy();
        return;
      }
      reader.onOpen();
      const lines = new Lines(reader.onLine, bounds.lineBytesMax);
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        try {
          lines.take(text);
        } catch (error) {
          asked.destroy(error instanceof Error ? error : new Error(String(error)));
        }
      });
      response.on('error', (error) => resolve(lost(error)));
      response.on('end', () => resolve({ kind: 'ended' }));
    });
    asked.setHeader('accept', 'application/json');
    // A peer that vanished answers no probe of the kernel; one that hangs is seen by its silence.
    asked.on('socket', (socket) => socket.setKeepAlive(true, 15_000));
    asked.setTimeout(bounds.silenceMs, () => asked.destroy(new Error(`nothing came for ${bounds.silenceMs / 1000} s`)));
    asked.on('error', (error) => resolve(lost(error)));
    asked.end();
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

  take(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    if (this.#rest.length > this.#max) throw new Error(`an event has more than ${this.#max} bytes`);
    for (const line of lines) if (line !== '') this.#onLine(line);
  }
}
