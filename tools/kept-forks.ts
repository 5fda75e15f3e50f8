import { ForksPoolWorker, type PoolOptions, type PoolWorker, type TestProject } from 'vitest/node';

type Listener = Parameters<PoolWorker['on']>[1];
type Request = Parameters<PoolWorker['send']>[0];

const name = 'kept-forks';
/** Processes that wait for the next file of their project. */
const idle = new Map<TestProject, KeptFork[]>();

/**
 * A process that runs test files of one project, one after the other. vitest ends such a process once the next file in its queue belongs to
 * another project; this one waits for its next file, with all modules that it has imported.
 */
class KeptFork extends ForksPoolWorker {
  override readonly name = name;
  readonly #project: TestProject;
  readonly #listeners: (readonly [event: string, listener: Listener])[] = [];
  #isStarted = false;
  /** False while a file runs: a process that is to end then is not kept. */
  #isDone = false;

  constructor(options: PoolOptions) {
    super(options);
    this.#project = options.project;
  }

  override on(event: string, listener: Listener): void {
    super.on(event, listener);
    this.#listeners.push([event, listener]);
  }

  override async start(): Promise<void> {
    if (!this.#isStarted) await super.start();
  }

  /** The second start, and each end, are answered here: the process never hears of them. */
  override send(message: Request): void {
    if (message.type === 'stop') this.#isDone = true;
    if (message.type === 'stop' || (message.type === 'start' && this.#isStarted)) {
      const type = message.type === 'stop' ? 'stopped' : 'started';
      for (const [event, listener] of this.#listeners)
        if (event === 'message') listener({ __vitest_worker_response__: true, type });
      return;
    }
    super.send(message);
    if (message.type === 'run') this.#isStarted = true;
  }

  override async stop(): Promise<void> {
    for (const [event, listener] of this.#listeners.splice(0)) this.off(event, listener);
    if (!this.#isDone) return super.stop();
    this.#isDone = false;
    idle.set(this.#project, [...(idle.get(this.#project) ?? []), this]);
  }

  end(): Promise<void> {
    return super.stop();
  }
}

/** The pool of projects whose files may share a process (`isolate: false`): at most `maxWorkers` of each project, with their modules. */
export const keptForks = {
  name,
  createPoolWorker: (options: PoolOptions): PoolWorker => idle.get(options.project)?.pop() ?? new KeptFork(options),
};

/** Ends all processes, which have nothing to do at the end of a run. */
export async function endKeptForks(): Promise<void> {
  const all = [...idle.values()].flat();
  idle.clear();
  await Promise.all(all.map((one) => one.end()));
}
