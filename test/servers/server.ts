import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../cluster/port.fixture.ts';

/** How to start a program that serves a port of loopback. */
export interface ServerCommand {
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A program that serves a port of 127.0.0.1, with a folder of its own. It ends by its process id. */
export class Server {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(port: number, child: ChildProcess, folder: string) {
    this.port = port;
    this.#child = child;
    this.#folder = folder;
  }

  /**
   * @param prepare writes what the program needs into the folder
   * @returns the server, once its port takes connections
   * @throws with its output where that takes more than 10 s
   */
  static async start(name: string, prepare: (folder: string, port: number) => ServerCommand): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), `sluice-${name}-`));
    const port = await freePort();
    const { argv, env } = prepare(folder, port);
    const [program = '', ...args] = argv;
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString('utf8')).slice(-4_000)));
    child.on('error', (error) => (output += error.message));
    const server = new Server(port, child, folder);
    for (let attempt = 0; attempt < 100 && child.exitCode === null; attempt++) {
      if (await isOpen(port)) return server;
      await sleep(100);
    }
    await server.close();
    throw new Error(`${name} does not serve port ${port}: ${output}`);
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    if (this.#child.exitCode === null && this.#child.kill('SIGTERM')) await Promise.race([ended, sleep(2_000)]);
    this.#child.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const isConnected = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  });
  socket.destroy();
  return isConnected;
}
