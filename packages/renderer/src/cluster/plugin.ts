import { isMap, parseJson } from '../render/model/kube.ts';
import { spawn } from 'node:child_process';
import type { OutgoingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { mapAt, textAt } from './json.ts';

// The client library runs plugins without a timeout and with unbounded output, leaves their standard input open, and does not tell them
// the version of the answer (KUBERNETES_EXEC_INFO): client-node.test.ts, "plugin.ts".

/** The `exec` of a user in a kubeconfig. */
export interface PluginCall {
  readonly command: string;
  readonly args?: readonly string[] | null;
  readonly apiVersion?: string;
  readonly env?: readonly { readonly name: string; readonly value: string }[] | null;
}

/** The credentials of a plugin, for a request. */
interface PluginCredentials {
  readonly cert?: string;
  readonly key?: string;
  readonly headers?: OutgoingHttpHeaders;
}

const answerBytesMax = 1024 * 1024;

/**
 * An exec plugin. Its credentials are cached until they expire.
 * https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
 */
export class Plugin {
  readonly #call: PluginCall;
  #answer: { readonly given: PluginCredentials; readonly untilMs: number } | undefined;

  constructor(call: PluginCall) {
    this.#call = call;
  }

  /**
   * Returns cached credentials, or runs the program.
   * @param signal kills the program
   * @throws Error with the program's standard error
   */
  async credentials(signal: AbortSignal): Promise<PluginCredentials> {
    if (this.#answer !== undefined && Date.now() < this.#answer.untilMs) return this.#answer.given;
    const credential = parseJson(await answerOf(this.#call, signal));
    if (!isMap(credential) || !isMap(credential['status']))
      throw new Error(`${this.#call.command} did not print an ExecCredential`);
    const status = mapAt(credential, 'status');
    const expires = Date.parse(textAt(status, 'expirationTimestamp'));
    const untilMs = Number.isNaN(expires) ? Number.POSITIVE_INFINITY : expires;
    this.#answer = { given: givenBy(status), untilMs };
    return this.#answer.given;
  }
}

function givenBy(status: ReturnType<typeof mapAt>): PluginCredentials {
  const cert = textAt(status, 'clientCertificateData');
  const key = textAt(status, 'clientKeyData');
  const token = textAt(status, 'token');
  return {
    ...(cert !== '' && { cert }),
    ...(key !== '' && { key }),
    ...(token !== '' && { headers: { Authorization: `Bearer ${token}` } }),
  };
}

/** Runs the program; the signal kills it with all its children. */
function answerOf(call: PluginCall, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const added = (call.env ?? []).map(({ name, value }) => [name, value] as const);
    const env = { ...process.env, ...Object.fromEntries(added), KUBERNETES_EXEC_INFO: infoOf(call) };
    // A separate process group, to kill its children as well. Not interactive: there is no standard input.
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

/** Collects output up to a limit. */
function collect(from: Readable, tooMuch: () => void): () => string {
  let text = '';
  from.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    if (text.length > answerBytesMax) tooMuch();
  });
  return () => text;
}

/** Kills a process group. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has already exited.
  }
}

/** `KUBERNETES_EXEC_INFO`, from which plugins take the API version. */
function infoOf({ apiVersion }: PluginCall): string {
  return JSON.stringify({ apiVersion, kind: 'ExecCredential', spec: { interactive: false } });
}
