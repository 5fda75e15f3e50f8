import { type ProfileFile, profileFile } from '@sluice/bundle';
import type { BundleView } from '../bundle/view.ts';
import { lineOf, type ServiceEntries, type ServiceEntry } from '../facts/service-entries.ts';
import type { Found, Violation } from './finding.ts';
import type { PolicySettings } from './settings.ts';

/** A bundle with the facts of its Services. */
export interface ReviewedBundle {
  readonly view: BundleView;
  readonly services: ServiceEntries;
}

/** The input of rules about one bundle. */
export interface PolicyContext extends ReviewedBundle {
  readonly settings: PolicySettings;
}

/** The input of rules about changes. */
export interface ChangeContext extends PolicyContext {
  readonly base: ReviewedBundle;
}

type Findings = Found | readonly Found[];

/** Applies a rule to every Service of the bundle. */
export const eachService = (
  { view, services }: PolicyContext,
  rule: (entry: ServiceEntry) => Findings,
): readonly Violation[] =>
  [...services.values()].flat().flatMap((entry) => inFile(view, entry.facts.service, entry.path, rule(entry)));

/** Applies a rule to every profile of the bundle. */
export const eachProfile = (
  { view }: PolicyContext,
  rule: (profile: ProfileFile, name: string) => Findings,
): readonly Violation[] =>
  [...view.profiles].flatMap(([name, profile]) =>
    inFile(view, `profile ${name}`, profileFile(name), rule(profile, name)),
  );

const inFile = (view: BundleView, subject: string, path: string, found: Findings): readonly Violation[] =>
  [found].flat().map(({ code, message, hint, at }) => {
    return { code, subject, message, hint, path, line: at === undefined ? 1 : lineOf(view, path, at) };
  });
