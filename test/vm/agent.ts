/** Runs in the guest: carries out requests from the machine over a line, several in parallel. `agent.ts DEVICE`; by default the virtio port. */
import { spawn } from 'node:child_process';
import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { outputBytesMax, portName, type GuestRun, type GuestReply, type GuestRequest } from './protocol.ts';

/** The port's device: the kernel numbers it, and has its name in /sys. */
function device(): string {
  const ports = '/sys/class/virtio-ports';
  const name = readdirSync(ports).find((port) => readFileSync(`${ports}/${port}/name`, 'utf8').trim() === portName);
  return `/dev/${name}`;
}

// One descriptor for both directions: a port can be open once only.
const port = openSync(process.argv[2] ?? device(), 'r+');
const out = createWriteStream('', { fd: port, autoClose: false });
const say = (reply: GuestReply): void => void out.write(`${JSON.stringify(reply)}\n`);

class Bounded {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  cut = false;

  add(chunk: Buffer): void {
    this.cut ||= this.#bytes + chunk.length > outputBytesMax;
    if (this.cut) return;
    this.#bytes += chunk.length;
    this.#chunks.push(chunk);
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}

function run(request: GuestRequest & { do: 'run' }): Promise<GuestRun> {
  const { promise, resolve } = Promise.withResolvers<GuestRun>();
  const [file = '', ...args] = request.argv;
  const child = spawn(file, args, { cwd: request.cwd, env: { ...process.env, ...request.env }, detached: true });
  const stdout = new Bounded();
  const stderr = new Bounded();
  child.stdout.on('data', (chunk: Buffer) => stdout.add(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.add(chunk));
  child.stdin.on('error', () => {});
  child.stdin.end(request.input);
  const end = (code: number | null, why = ''): void => {
    clearTimeout(timer);
    resolve({ code, stdout: stdout.text, stderr: stderr.text + why, cut: stdout.cut || stderr.cut });
  };
  const timer = setTimeout(() => {
    killGroup(child.pid);
    // A grandchild in another process group may hold the pipes forever.
    child.stdout.destroy();
    child.stderr.destroy();
    end(null, `\nended after ${request.timeoutMs} ms`);
  }, request.timeoutMs);
  child.on('error', (error) => end(127, String(error)));
  child.on('close', (code) => end(code));
  return promise;
}

/** Kills a program and its children: the process group is its own. */
function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function answer(request: GuestRequest): Promise<GuestReply> {
  switch (request.do) {
    case 'run':
      return { id: request.id, ...(await run(request)) };
    case 'put':
      mkdirSync(dirname(request.path), { recursive: true });
      writeFileSync(request.path, Buffer.from(request.base64, 'base64'));
      return { id: request.id, base64: '' };
    case 'get':
      return { id: request.id, base64: readFileSync(request.path).toString('base64') };
  }
}

say({ ready: true });
for await (const line of createInterface({ input: createReadStream('', { fd: port, autoClose: false }) })) {
  const request = JSON.parse(line) as GuestRequest;
  answer(request).then(say, (error: unknown) => say({ id: request.id, error: String(error) }));
}
