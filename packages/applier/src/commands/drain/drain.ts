import { setTimeout as sleep } from 'node:timers/promises';
import { stateError } from '../../command-error.ts';
import { connectToDaemon } from '../../daemon/control/ask.ts';
import type { Control } from '../../daemon/control/protocol.ts';
import { limits } from '../../limits.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface DrainOptions extends CommonOptions {
  /** How long the drain lasts, in seconds; left out: until `undrain` or a boot. */
  readonly for?: number;
  /** Waits until load balancers were told. */
  readonly wait?: boolean;
  /** How long `wait` lasts at most, in seconds. */
  readonly timeout?: number;
}

/** `sluiced drain`: exit code 1 when with `--wait` clients are left that were not told. */
export async function drain(options: DrainOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const control = await mustAnswer(config.state, 'drain');
  let state = await control.drain({ seconds: options.for ?? null });
  const endMs = performance.now() + (options.timeout ?? limits.waitSecondsDefault) * 1000;
  while (options.wait && state.untold > 0 && performance.now() < endMs) {
    await sleep(limits.waitPollMs);
    const now = (await control.status()).report?.draining;
    if (!now) throw stateError('Cannot wait for the drain: it has ended', 'Run `sluiced drain` again');
    state = now;
  }
  const isDone = !options.wait || state.untold === 0;
  const until = state.until === null ? '`sluiced undrain` or a boot' : state.until;
  const note = isDone ? '' : `; ${state.untold} clients of its ports were not told yet`;
  answer(options, terminal, {
    kind: 'Drain',
    fields: { node: config.node, draining: state },
    text: `drained until ${until}${note}\n`,
  });
  return isDone ? exitCodes.done : exitCodes.different;
}

/** `sluiced undrain`. */
export async function undrain(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  await (await mustAnswer(config.state, 'undrain')).undrain();
  answer(options, terminal, {
    kind: 'Drain',
    fields: { node: config.node, draining: null },
    text: 'not drained: load balancers may send to this node\n',
  });
  return exitCodes.done;
}

async function mustAnswer(state: string, verb: string): Promise<Control> {
  const control = await connectToDaemon(state);
  if (control) return control;
  throw stateError(
    `Cannot ${verb} the node: no sluiced answers, so its ports for load balancers are closed`,
    'Start it: `systemctl start sluiced`',
    exitCodes.refused,
  );
}
