import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';

/** The result of one connection. */
export interface Sample {
  readonly address: string;
  /** The answer, or the code of the error; `no answer` after the time-out. */
  readonly met: string;
  readonly ms: number;
}

const program = `
  const { connect } = require('node:net');
  const { createInterface } = require('node:readline');
  const sample = (address, port, timeout) => new Promise((done) => {
    const begin = performance.now();
    let socket;
    const end = (met) => { clearTimeout(timer); socket.destroy(); done({ address, met, ms: Math.round(performance.now() - begin) }); };
    const timer = setTimeout(end, timeout, 'no answer');
    socket = connect({ host: address, port });
    socket.on('data', (text) => end(String(text)));
    socket.on('error', (error) => end(error.code));
    socket.on('end', () => end('closed'));
  });
  createInterface({ input: process.stdin }).on('line', async (line) => {
    const { id, addresses, port, timeout } = JSON.parse(line);
    const samples = await Promise.all(addresses.map((address) => sample(address, port, timeout)));
    process.stdout.write(JSON.stringify({ id, samples }) + '\\n');
  }).on('close', () => process.exit(0));
`;

/** A client in a network namespace that connects to many addresses at once, each by a new TCP connection. */
export class Sampler {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting = new Map<number, PromiseWithResolvers<readonly Sample[]>>();
  #last = 0;

  /** @param namespace of the client */
  constructor(namespace: string) {
    const stdio = ['pipe', 'pipe', 'inherit'] as const;
    this.#child = spawn('ip', ['netns', 'exec', namespace, process.execPath, '-e', program], { stdio: [...stdio] });
    // Its exit rejects what waits.
    this.#child.stdin!.on('error', () => undefined);
    this.#lines = createInterface({ input: this.#child.stdout! });
    this.#lines.on('line', (line) => {
      const { id, samples } = JSON.parse(line) as { readonly id: number; readonly samples: readonly Sample[] };
      this.#waiting.get(id)?.resolve(samples);
      this.#waiting.delete(id);
    });
    this.#child.once('exit', (code) => {
      for (const { reject } of this.#waiting.values())
        reject(new Error(`the client in ${namespace} ended with ${code}`));
    });
  }

  /** @param timeoutMs after which a connection counts as unanswered */
  ask(addresses: readonly string[], port: number, timeoutMs: number): Promise<readonly Sample[]> {
    const id = ++this.#last;
    const answer = Promise.withResolvers<readonly Sample[]>();
    this.#waiting.set(id, answer);
    this.#child.stdin!.write(`${JSON.stringify({ id, addresses, port, timeout: timeoutMs })}\n`);
    return answer.promise;
  }

  /** Ends the client through its standard input. */
  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.stdin!.end();
    await ended;
  }
}
