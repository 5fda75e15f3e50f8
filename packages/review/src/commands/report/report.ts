import type { BundleFiles } from '@sluice/bundle';
import { document, type Format } from '@sluice/cli';
import { printPolicy } from '../../emit/policy/print.ts';
import { diffSize } from '../../emit/report/diff-size.ts';
import { commentCharactersMax, reportMarkdown } from '../../emit/report/markdown.ts';
import type { ReportSides } from '../../emit/report/page-data.ts';
import { reportSummary } from '../../emit/report/summary.ts';
import { printDiff } from '../../emit/diff.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { isSame } from '../../diff/diff.ts';
import { passes, type PortEffect } from '../../failures/effect.ts';
import { policyDefaults, type PolicySettings } from '../../policy/settings.ts';
import { type ChangeReport, type Failure, reportOn, type WhatIf } from '../../report/report.ts';
import { percentText } from '../../report/words.ts';
import { breaks, type FailureRow, whatIf, type WhatIf as JudgedFailures } from '../../what-if/what-if.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { dayOf } from '@sluice/renderer/commands/input/day.ts';
import { policyIn } from '../input/settings.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';

interface ReportOptions {
  readonly output: 'html' | 'markdown' | Format;
  /** With a config, the report includes the results of its policy. */
  readonly config?: string;
  readonly today?: string;
  /** Judge failures of the new bundle, too. */
  readonly whatIf?: boolean;
  /** Markdown that fits into a comment. */
  readonly comment?: boolean;
  /** Markdown of a few lines. */
  readonly summary?: boolean;
  readonly reportUrl?: string;
}

/** `sluice report`: prints a page, or a comment, on the effect of a change. */
export async function reportCommand(old: string, updated: string, options: ReportOptions): Promise<number> {
  const today = dayOf(options.today);
  const settings = policyIn(options.config);
  progress('reading');
  const before = { name: old, files: bundleAt(old) };
  const after = { name: updated, files: bundleAt(updated) };
  progress('comparing');
  const policy = options.config === undefined ? {} : { policy: { settings, today } };
  const judged = options.whatIf === true ? judge(after.files, settings, today) : undefined;
  const whatIfs = judged && { whatIf: reportedFailures(judged) };
  const report = reportOn({ old: before.files, updated: after.files, ...policy, ...whatIfs });
  progress('writing');
  const config = options.config === undefined ? {} : { config: options.config };
  print(await printed(report, { old: before, updated: after, ...config }, options));
  return isSame(report.diff) ? exitCodes.done : exitCodes.different;
}

/** Every single zone and node. */
function judge(files: BundleFiles, settings: PolicySettings, today: string): JudgedFailures {
  progress('judging failures');
  const sharePercent = settings.survives?.sharePercent ?? policyDefaults.survivesSharePercent;
  return whatIf(files, { without: [], endpoints: false, sharePercent, settings, today });
}

async function printed(report: ChangeReport, sides: ReportSides, options: ReportOptions): Promise<string> {
  const link = options.reportUrl === undefined ? {} : { reportUrl: options.reportUrl };
  if (options.summary === true) return reportSummary(report, { bundle: sides.updated.name, ...link });
  if (options.output === 'json') return document('ChangeReport', report);
  if (options.output === 'text') return `${printDiff(report.diff, 'text')}${policyText(report, sides)}`;
  if (options.output === 'html') return (await import('../../emit/report/html.ts')).reportHtml(report, sides);
  return reportMarkdown(report, {
    size: diffSize(sides.old.files, sides.updated.files),
    ...(options.comment === true ? { charactersMax: commentCharactersMax } : {}),
    ...link,
  });
}

/** The results of the policy for the new bundle; empty without a config. */
function policyText({ policy }: ChangeReport, { updated, config }: ReportSides): string {
  if (policy === undefined) return '';
  const settings = config === undefined ? {} : { config };
  return `\n${printPolicy({ result: policy, bundle: updated.name, ...settings }, 'text')}`;
}

/** The failures that a report shows: those that take something from clients or break a rule, the worst first. */
export function reportedFailures({ rows, sharePercent }: JudgedFailures): WhatIf {
  return rows.filter((row) => breaks(row) || row.rules.length > 0).map((row) => failureOf(row, sharePercent / 100));
}

/** @param most the share that one endpoint may get, 0 to 1 */
function failureOf({ places, effects, rules }: FailureRow, most: number): Failure {
  const [{ kind, name }] = places as [FailureRow['places'][number]];
  const texts = (of: (effect: PortEffect) => readonly string[]): readonly string[] => [...new Set(effects.flatMap(of))];
  return {
    kind,
    name,
    lost: texts(lostOf),
    over: texts((effect) => {
      const { port, share } = effect;
      const change = `${percentText(share.before)} → ${percentText(share.after)}`;
      return passes(effect, most) ? [`${share.endpoint} of ${port.key}: ${change}`] : [];
    }),
    rules: rules.map(({ code, subjects }) => `${code} (${subjects.length})`),
  };
}

/** A port, or where it is not lost everywhere the nodes and frontends without it. */
function lostOf({ port: { key }, isGone, without, dark }: PortEffect): readonly string[] {
  if (isGone) return [key];
  return [
    ...without.flatMap(({ nodes, policy }) => nodes.map((node) => `${key} on ${node} (${policy})`)),
    ...dark.map((frontend) => `${frontend} of ${key}`),
  ];
}
