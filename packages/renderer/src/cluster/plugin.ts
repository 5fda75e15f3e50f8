import { spawn } from 'node:child_process';
import type { OutgoingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { isMap, mapAt, parseJson, textAt } from './json.ts';

/** The program of a user in a kubeconfig, as its `exec` names it. */
export interface PluginCall {
  readonly command: string;
  readonly args?: readonly string[] | null;
  readonly apiVersion?: string;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
}

/** What a plugin gives to a request. */
export interface Given {
  readonly cert?: string;
  readonly key?: string;
  readonly headers?: OutgoingHttpHeaders;
}

const answerBytesMax = 1024 * 1024;

/**
 * A program that gives credentials, asked once until they expire. The client library's own way to it ends when the program does.
 * https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
 */
export class Plugin {
  readonly #call: PluginCall;
  #answer: { readonly given: Given; readonly untilMs: number } | undefined;

  constructor(call: PluginCall) {
    this.#call = call;
  }

  /**
   * @param signal ends the program
   * @throws Error with what the program said
   */
  async credentials(signal: AbortSignal): Promise<Given> {
    if (this.#answer !== undefined && Date.now() < this.#answer.untilMs) return this.#answer.given;
    const credential = parseJson(await answerOf(this.#call, signal));
    if (!isMap(credential) || !isMap(credential['status']))
      throw new Error(`${this.#call.command} answered something that is no ExecCredential`);
    const status = mapAt(credential, 'status');
    const expires = Date.parse(textAt(status, 'expirationTimestamp'));
    const untilMs = Number.isNaN(expires) ? Number.POSITIVE_INFINITY : expires;
    this.#answer = { given: givenBy(status), untilMs };
    return this.#answer.given;
  }
}

function givenBy(status: ReturnType<typeof mapAt>): Given {
  const cert = textAt(status, 'clientCertificateData');
  const key = textAt(status, 'clientKeyData');
  const token = textAt(status, 'token');
  return {
    ...(cert !== '' && { cert }),
    ...(key !== '' && { key }),
    ...(token !== '' && { headers: { Authorization: `Bearer ${token}` } }),
  };
}

/** Runs the program to its end, or to the signal: then all that it started ends too. */
function answerOf(call: PluginCall, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const added = (call.env ?? []).map(({ name, value }) => [name, value] as const);
    const env = { ...process.env, ...Object.fromEntries(added), KUBERNETES_EXEC_INFO: infoOf(call) };
    // A group of its own, so that it can be ended as a whole. Nobody is there whom it could ask.
    const program = spawn(call.command, call.args ?? [], { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const end = (): void => {
      endGroup(program.pid);
      program.stdout.destroy();
      program.stderr.destroy();
    };
    const stdout = collect(program.stdout, end);
    const stderr = collect(program.stderr, end);
    if (signal.aborted) end();
    signal.addEventListener('abort', end);
    program.on('error', reject);
    program.on('close', (code, killed) => {
      signal.removeEventListener('abort', end);
      if (code === 0) resolve(stdout());
      else reject(new Error(stderr().trim() || `${call.command} ended with ${killed ?? `exit code ${code}`}`));
    });
  });
}

/** Keeps what comes, as far as anybody would read it. */
function collect(from: Readable, tooMuch: () => void): () => string {
  let text = '';
  from.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    if (text.length > answerBytesMax) tooMuch();
  });
  return () => text;
}

/** Ends a program and all that it started. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}

/** What plugins read to learn in which version they answer. */
function infoOf({ apiVersion }: PluginCall): string {
  return JSON.stringify({ apiVersion, kind: 'ExecCredential', spec: { interactive: false } });
}
