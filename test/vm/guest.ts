import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { programPath } from '@sluice/testing';
import { execa, execaSync } from 'execa';
import { checkoutParts } from '../checkout-parts.ts';
import { guestParityPrograms } from '../parity/binaries.ts';
import { pathOf } from '../parity/build.ts';
import { find, type GuestKernel, type Image, makeDisk, prepareImage } from './image.ts';
import { portName, type GuestRun } from './protocol.ts';
import { connected, GuestTalk } from './talk.ts';

export interface GuestOptions {
  /** By default 6.1. */
  readonly kernel?: GuestKernel;
  /** MiB of memory; by default 2048. */
  readonly memory?: number;
  /**
   * A raw disk image, /dev/vdc in the guest, which mounts it. It bypasses the machine's cache: data that the guest
   * has flushed are there after `kill`; other data may be there or not.
   */
  readonly disk?: string;
}

export interface RunOptions {
  readonly input?: string;
  /** After this time-out the program and its children are killed; by default 60,000. */
  readonly timeoutMs?: number;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** An emulated machine with a Debian kernel: `await using guest = await bootGuest()`. */
export interface Guest extends AsyncDisposable {
  /** From the start of the emulator to the agent's first message. */
  readonly bootMs: number;
  /** Runs a program; a text is a script for `sh`. The checkout is the current directory, at /sluice. */
  run(command: string | readonly string[], options?: RunOptions): Promise<GuestRun>;
  put(path: string, content: string | Uint8Array): Promise<void>;
  get(path: string): Promise<Buffer>;
  /** A power cut: `kill -9` of the emulator. */
  kill(): Promise<void>;
}

const checkout = join(import.meta.dirname, '..', '..');
const bootMsMax = 180_000;

/**
 * Boots a guest with the present checkout.
 * @throws with the end of its console when it does not start
 */
export async function bootGuest(options: GuestOptions = {}): Promise<Guest> {
  const image = prepareImage(options.kernel);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-vm-'));
  const project = join(folder, 'project.img');
  makeProjectDisk(project, folder);
  const socket = join(folder, 'port');
  return await booted(startEmulator(image, project, socket, options), (signal) => connected(socket, signal), folder);
}

/** What runs a guest's kernel. It resolves when that has ended, with all that its console printed. */
export interface Machine extends Promise<{ readonly all: string }> {
  kill(signal: 'SIGKILL'): unknown;
}

/**
 * Waits until the agent of a guest is ready.
 * @param line gives the machine's end of the line to the agent
 * @param folder removed at the end
 * @throws with the end of its console when it does not start
 */
export async function booted(
  machine: Machine,
  line: (signal: AbortSignal) => Promise<Duplex>,
  folder: string,
): Promise<Guest> {
  const started = performance.now();
  const ended = new AbortController();
  void machine.then(() => ended.abort(new Error('its machine has ended')));
  const timer = setTimeout(() => ended.abort(new Error(`it did not start within ${bootMsMax} ms`)), bootMsMax);
  try {
    const talk = await GuestTalk.open(await line(ended.signal), ended.signal);
    return new Emulated(machine, talk, folder, performance.now() - started);
  } catch (error) {
    machine.kill('SIGKILL');
    const { all } = await machine;
    rmSync(folder, { recursive: true, force: true });
    throw new Error(`Cannot boot the guest: ${String(error)}\n${all.slice(-2000)}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** The parts of the checkout that the guest runs; node_modules is on the root disk, which changes less often. */
const parts = [...checkoutParts, 'pnpm-workspace.yaml', 'vitest.guest.config.ts', 'README.md'];

/** The directory of the programs of the run in the guest. */
export const guestPrograms = '/sluice/programs';

/** The cache of the programs of test/parity in the guest, below the checkout: with those that are built here. */
const guestCache = 'cache/sluice-parity';

function makeProjectDisk(image: string, folder: string): void {
  const staging = join(folder, 'project');
  for (const part of parts) {
    const from = join(checkout, part);
    if (existsSync(from)) cpSync(from, join(staging, part), { recursive: true, verbatimSymlinks: true });
  }
  cpSync(dirname(programPath('sluice')), join(staging, 'programs'), { recursive: true });
  for (const program of guestParityPrograms())
    if (existsSync(pathOf(program))) cpSync(pathOf(program), pathOf(program, join(staging, guestCache)));
  makeDisk(image, staging, 600);
  rmSync(staging, { recursive: true });
}

function startEmulator(image: Image, project: string, socket: string, options: GuestOptions): Machine {
  const readOnly = (file: string): string[] => ['-drive', `file=${file},format=raw,if=virtio,readonly=on,cache=unsafe`];
  // One thread for both processors: with one each, one start of Node in twelve died of code that the other was still changing.
  // -enable-kvm may hang where the machine is itself a guest: emulation is slow, but always works.
  const machine = ['-accel', 'tcg,thread=single', '-cpu', 'max', '-smp', '2', '-m', String(options.memory ?? 2048)];
  const terminal = ['-nographic', '-no-reboot', '-nic', 'none', '-monitor', 'none', '-serial', 'stdio'];
  const line = 'console=ttyS0 quiet panic=-1 mitigations=off';
  const start = ['-kernel', image.kernel, '-initrd', image.initrd, '-append', line];
  const own = options.disk === undefined ? [] : ['-drive', `file=${options.disk},format=raw,if=virtio,cache=none`];
  const port = [
    '-device',
    'virtio-rng-pci',
    '-device',
    'virtio-serial-pci',
    '-chardev',
    `socket,id=port,path=${socket},server=on,wait=off`,
    '-device',
    `virtserialport,chardev=port,name=${portName}`,
  ];
  const args = [...machine, ...terminal, ...start, ...readOnly(image.root), ...readOnly(project), ...own, ...port];
  const program = find('qemu-system-x86_64') as string;
  return execa(program, args, { stdin: 'ignore', all: true, reject: false, maxBuffer: 4 * 1024 * 1024 });
}

class Emulated implements Guest {
  readonly bootMs: number;
  readonly #emulator: Machine;
  readonly #talk: GuestTalk;
  readonly #folder: string;
  #isKilled = false;

  constructor(emulator: Machine, talk: GuestTalk, folder: string, bootMs: number) {
    this.#emulator = emulator;
    this.#talk = talk;
    this.#folder = folder;
    this.bootMs = bootMs;
  }

  async run(command: string | readonly string[], options: RunOptions = {}): Promise<GuestRun> {
    const { input = '', timeoutMs = 60_000, cwd = '/sluice', env = {} } = options;
    const argv = typeof command === 'string' ? ['sh', '-c', command] : command;
    try {
      return (await this.#talk.ask({ do: 'run', argv, input, timeoutMs, cwd, env })) as GuestRun & { id: number };
    } catch (error) {
      if (this.#isKilled) throw error;
      this.#emulator.kill('SIGKILL');
      const { all } = await this.#emulator;
      throw new Error(`${String(error)}\n${all.slice(-4000)}`, { cause: error });
    }
  }

  async put(path: string, content: string | Uint8Array): Promise<void> {
    await this.#talk.ask({ do: 'put', path, base64: Buffer.from(content as string).toString('base64') });
  }

  async get(path: string): Promise<Buffer> {
    const reply = await this.#talk.ask({ do: 'get', path });
    return Buffer.from('base64' in reply ? reply.base64 : '', 'base64');
  }

  async kill(): Promise<void> {
    this.#isKilled = true;
    this.#emulator.kill('SIGKILL');
    await this.#emulator;
    this.#talk.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}

/** An empty ext4 disk for `GuestOptions.disk`, with a journal, like a machine's own. */
export function emptyDisk(file: string, megabytes: number): void {
  execaSync(find('mkfs.ext4') as string, ['-q', '-F', file, `${megabytes}M`]);
}
