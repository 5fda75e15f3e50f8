import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import type { AgentRequest, AgentResponse, Connect, Protocol, Reply } from './agent.ts';

const agentFile = fileURLToPath(new URL('./agent.ts', import.meta.url));

/** How long any command in a namespace may take, unless its caller says otherwise. */
const commandTimeoutMs = 20_000;

export interface ExecOptions {
  readonly input?: string;
  readonly timeoutMs?: number;
}

/** The output of a command in a namespace, and how it ended. */
export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** What a machine has of its own beside network, mounts and processes. */
export interface HostOptions {
  /** Further namespaces, as options of unshare and nsenter: `--uts`. */
  readonly namespaces?: readonly string[];
  /** What starts each command, such as one that joins a control group. The command follows as its arguments. */
  readonly starter?: readonly string[];
}

type AgentProcess = ReturnType<typeof launch>;

function launch({ namespaces = [], starter = [] }: HostOptions) {
  const agent = ['sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$0" "$@"', process.execPath, agentFile];
  const own = [...namespaces, '--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const [program = '', ...args] = [...starter, 'unshare', ...own, ...agent];
  return execa(program, args, {
    stdin: 'pipe',
    stderr: 'inherit',
    buffer: false,
    reject: false,
  });
}

/**
 * A machine of the cluster: network, mount and process namespaces without a name, held by one agent process.
 * They live as long as the agent, and the agent as long as its standard input: nothing has to be cleaned up, not even after `kill -9`
 * of the test. Everything started inside dies with the agent, because the agent is process 1 of its namespace.
 * `/run` is private, as is the xtables lock in it; `/proc` shows this machine's processes only.
 */
export class Host {
  readonly name: string;
  readonly #options: HostOptions;
  readonly #process: AgentProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<Reply | null>>();
  #lastId = 0;

  private constructor(name: string, child: AgentProcess, options: HostOptions) {
    this.name = name;
    this.#options = options;
    this.#process = child;
    this.#waiting.set(0, Promise.withResolvers());
    createInterface({ input: child.stdout }).on('line', (line) => this.#hear(line));
    void child.finally(() => {
      for (const waiting of this.#waiting.values()) waiting.reject(new Error(`The agent of ${name} has ended`));
    });
  }

  /** Starts the namespaces and waits for their agent. */
  static async start(name: string, options: HostOptions = {}): Promise<Host> {
    const host = new Host(name, launch(options), options);
    await host.#waiting.get(0)?.promise;
    return host;
  }

  /** The process whose namespaces these are, for `ip link … netns PID`. */
  get pid(): number {
    const { pid } = this.#process;
    if (pid === undefined) throw new Error(`Cannot enter ${this.name}: its process did not start`);
    return pid;
  }

  /** Runs a program inside to its end; failure and time-out are results, not errors. Paths in it must be absolute. */
  async exec(argv: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const [program, args] = this.inside(argv);
    const { exitCode, stdout, stderr, timedOut } = await execa(program, args, {
      reject: false,
      timeout: options.timeoutMs ?? commandTimeoutMs,
      ...(options.input === undefined ? { stdin: 'ignore' as const } : { input: options.input }),
    });
    return { exitCode: exitCode ?? -1, stdout, stderr: timedOut ? `${stderr}\n(stopped: too slow)` : stderr };
  }

  /** Like `exec`, but throws when the program fails. */
  async run(argv: readonly string[], options: ExecOptions = {}): Promise<string> {
    const result = await this.exec(argv, options);
    if (result.exitCode === 0) return result.stdout;
    throw new Error(`Cannot run ${argv.join(' ')} on ${this.name}: exit code ${result.exitCode}\n${result.stderr}`);
  }

  /** Starts a program in the background. `stop` sends SIGTERM to it and waits. */
  start(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Daemon {
    // nsenter forks and passes no signal on: the program's own process number is kept in the machine's private /run.
    const pidFile = `/run/daemon-${++this.#lastId}.pid`;
    const wrapper = ['sh', '-c', 'echo $$ > "$0" && exec "$@"', pidFile];
    const [program, args] = this.inside([...wrapper, ...argv]);
    const child = execa(program, args, {
      reject: false,
      all: true,
      stdin: 'ignore',
      env,
    });
    const signal = (name: string): Promise<ExecResult> =>
      this.exec(['sh', '-c', 'kill -s "$0" "$(cat "$1")"', name, pidFile]);
    return {
      signal: async (name) => void (await signal(name)),
      ended: child.then(({ exitCode, all }) => ({ exitCode: exitCode ?? -1, output: all })),
      stop: async () => {
        await signal('TERM');
        await child;
      },
    };
  }

  sysctl(values: Readonly<Record<string, string>>): Promise<unknown> {
    return this.#send({ do: 'sysctl', values });
  }

  /** Answers on a port of all addresses with the host's name and the peer's address. */
  serve(protocol: Protocol, port: number): Promise<unknown> {
    return this.#send({ do: 'serve', name: this.name, protocol, port });
  }

  /** Opens one new connection from here. */
  async connect(target: Connect): Promise<Reply> {
    const reply = await this.#send({ do: 'connect', ...target });
    if (!reply) throw new Error(`The agent of ${this.name} gave no reply`);
    return reply;
  }

  /** Ends the agent and everything inside; the kernel removes the namespaces. */
  async close(): Promise<void> {
    this.#process.stdin.end();
    await this.#process;
  }

  /** What runs a command inside, as a program with its arguments. */
  inside(argv: readonly string[]): readonly [program: string, args: readonly string[]] {
    const { pid } = this;
    const { namespaces = [], starter = [] } = this.#options;
    const own = [`--target=${pid}`, ...namespaces, '--net', '--mount', `--pid=/proc/${pid}/ns/pid_for_children`, '--'];
    const [program = '', ...args] = [...starter, 'nsenter', ...own, ...argv];
    return [program, args];
  }

  #send(command: AgentRequest): Promise<Reply | null> {
    const id = ++this.#lastId;
    const waiting = Promise.withResolvers<Reply | null>();
    this.#waiting.set(id, waiting);
    this.#process.stdin.write(`${JSON.stringify({ id, ...command })}\n`);
    return waiting.promise;
  }

  #hear(line: string): void {
    const response = JSON.parse(line) as AgentResponse;
    const waiting = this.#waiting.get(response.id);
    this.#waiting.delete(response.id);
    if ('error' in response) waiting?.reject(new Error(`${this.name}: ${response.error}`));
    else waiting?.resolve(response.result);
  }
}

/** A program in the background. */
export interface Daemon {
  signal(name: 'TERM' | 'KILL' | 'HUP' | 'USR2'): Promise<void>;
  readonly ended: Promise<{ readonly exitCode: number; readonly output: string }>;
  stop(): Promise<void>;
}
