import { parseAddress, printEndpoint, type Problem, refusal } from '@sluice/netfilter';
import { printWhatIf } from '../../emit/what-if.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import type { FailedPlace } from '../../failures/failure.ts';
import { policyDefaults } from '../../policy/settings.ts';
import { breaks, whatIf } from '../../what-if/what-if.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { dayOf } from '@sluice/renderer/commands/input/day.ts';
import { policyIn } from '../input/settings.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';

interface WhatIfOptions {
  /** `node=node-a` */
  readonly without?: readonly string[];
  readonly endpoints?: boolean;
  /** In percent; default: that of the policy. */
  readonly share?: number;
  readonly config?: string;
  readonly today?: string;
  readonly exitCode?: boolean;
  readonly output: 'text' | 'json';
}

/** `sluice what-if`: prints what failures take from clients, the worst first. */
export function whatIfCommand(dir: string, options: WhatIfOptions): number {
  const today = dayOf(options.today);
  const without = (options.without ?? []).map(placeOf);
  const settings = policyIn(options.config);
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  progress('judging failures');
  const sharePercent = options.share ?? settings.survives?.sharePercent ?? policyDefaults.survivesSharePercent;
  const judged = whatIf(files, { without, endpoints: options.endpoints ?? false, sharePercent, settings, today });
  print(printWhatIf(judged, dir, options.output));
  return options.exitCode === true && judged.rows.some(breaks) ? exitCodes.different : exitCodes.done;
}

const placeForm = /^(node|zone|endpoint)=(.+)$/;

/** @throws Stopped for a text of another form */
function placeOf(text: string): FailedPlace {
  const [, kind, name = ''] = placeForm.exec(text) ?? [];
  if (kind === 'node' || kind === 'zone') return { kind, name };
  const endpoint = kind === undefined ? undefined : endpointName(name);
  if (endpoint !== undefined) return { kind: 'endpoint', name: endpoint };
  const problem: Problem = refusal(
    'INPUT_UNREADABLE',
    `Cannot use --without ${JSON.stringify(text)}: it is not of the form node=NAME, zone=NAME or endpoint=ADDRESS[:PORT]`,
    'Write --without node=node-a, --without zone=z1 or --without endpoint=10.244.1.5:8080',
  );
  throw new Stopped(problem);
}

/** An address, or an address with a port, in the form that bundles have. */
function endpointName(text: string): string | undefined {
  const address = parseAddress(text.replaceAll(/^\[|\]$/g, ''));
  if (address) return address.text;
  const [, host = '', port = ''] = /^(\[[0-9a-fA-F:.]+\]|[0-9.]+):(\d{1,5})$/.exec(text) ?? [];
  const known = parseAddress(host.replaceAll(/^\[|\]$/g, ''));
  return known && printEndpoint(known.text, Number(port));
}
