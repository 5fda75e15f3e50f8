import { plural } from '@sluice/netfilter';
import { commandError } from '../../command-error.ts';
import type { RollbackEnding, RollbackPlan, RollbackTarget } from '../../daemon/control/protocol.ts';
import { printEndpointChanges } from '../../apply/endpoints/endpoint-changes.ts';
import { describe, exitCodes, rateOutcome } from '../../ports/outcome.ts';
import { withControl } from '../session/control.ts';
import { answer, type CommonOptions, linesOf, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface RollbackOptions extends CommonOptions {
  /** The endpoints to roll back to; default: the newest. */
  readonly endpoints?: 'newest' | 'old';
  /** Allows generation 0 as target: the rules this node had before Sluice. */
  readonly removeAllServices?: boolean;
  /** Shows the changes only. */
  readonly dryRun?: boolean;
  /** Does not ask. */
  readonly yes?: boolean;
}

/**
 * `sluiced rollback [TARGET]`: shows the changes, asks, and rolls back, through the daemon where one runs. Exit code 1 when the operator
 * declines, or when a dry run found changes.
 */
export async function rollback(to: string | undefined, options: RollbackOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const { endpoints = 'newest', removeAllServices = false } = options;
  return withControl(config, terminal, async (control) => {
    const plan = await control.planRollback({ ...(to === undefined ? {} : { to }), endpoints, removeAllServices });
    const print = linesOf(options, terminal);
    const finish = (ending: RollbackEnding | null, text: string): void =>
      answer(options, terminal, { kind: 'Rollback', fields: { node: config.node, plan, ending }, text });
    print(printRollback(plan));
    if (options.dryRun || !(await isAgreed(options, terminal))) {
      if (!options.dryRun) terminal.err('nothing was changed\n');
      finish(null, '');
      return exitCodes.different;
    }
    const ending = await control.rollBack({
      from: plan.from,
      to: to !== undefined && !/^\d+$/.test(to) ? to : String(plan.to.generation),
      generation: plan.to.generation,
      cancels: plan.cancels?.token ?? null,
      endpoints,
      removeAllServices,
    });
    finish(ending, ending.kind === 'done' ? done(plan) : `${describe(ending)}\n`);
    if (ending.kind !== 'done') return rateOutcome(ending).exitCode;
    if (ending.unwritten !== null) terminal.err(unwritten(plan, ending.unwritten));
    return exitCodes.done;
  });
}

/** @throws CommandError where there is no terminal to ask on */
async function isAgreed({ yes, output }: RollbackOptions, terminal: Terminal): Promise<boolean> {
  if (yes) return true;
  if (terminal.ask && output !== 'json') return terminal.ask('Roll back?');
  const message = 'Cannot roll back without confirmation: there is no terminal to ask on';
  throw commandError('ANSWER_MISSING', message, 'Check the changes above, then pass --yes');
}

const done = ({ to: { generation, version } }: RollbackPlan): string =>
  generation === 0
    ? "Rolled back to generation 0: Sluice's rules are removed; this node has only the rules it had before Sluice\n"
    : `Rolled back to generation ${generation} (version ${version})\n`;

const unwritten = ({ to }: RollbackPlan, why: string): string =>
  `warning: the journal was not updated: ${why}. The next start of sluiced and the next boot follow the journal. When the disk takes writes again, run \`sluiced rollback ${to.generation}\` again\n`;

/** How many Services a line names. */
const namedMax = 10;

/** The changes of a rollback, in lines for an operator. */
export function printRollback({ to, cancels, endpoints, services, stale, lines }: RollbackPlan): string {
  const title = `Roll back to generation ${to.generation} (${details(to)})`;
  const cancelled = cancels === null ? [] : [`version ${cancels.version}, on probation, is cancelled first`];
  if (!services) {
    const unknown = 'the active generation cannot be read, so the changes are not known';
    return [title, ...[...cancelled, unknown].map((line) => `  ${line}`), ''].join('\n');
  }
  const { removed, restored } = services;
  const all = [
    cancelled,
    removed.length === 0 ? [] : [`${plural(removed.length, 'Service')} removed: ${some(removed)}`],
    restored.length === 0
      ? []
      : [`${plural(restored.length, 'Service')} restored with old endpoints, which may be stale: ${some(restored)}`],
    stale.length === 0
      ? []
      : [
          `${endpoints === 'newest' ? 'the newest endpoints cannot be kept for' : 'old endpoints, which may be stale'}: ${printEndpointChanges(stale)}`,
        ],
    [`${lines} lines of rules change`],
  ];
  return [title, ...all.flat().map((line) => `  ${line}`), ''].join('\n');
}

function details({ version, confirmedAt, serial }: RollbackTarget): string {
  const release = serial === null ? [] : [`release ${serial}`];
  const when = confirmedAt === null ? [] : [`confirmed ${confirmedAt}`];
  return [`version ${version}`, ...release, ...when].join(', ');
}

const some = (names: readonly string[]): string =>
  names.length <= namedMax
    ? names.join(', ')
    : `${names.slice(0, namedMax).join(', ')}, ${names.length - namedMax} more`;
