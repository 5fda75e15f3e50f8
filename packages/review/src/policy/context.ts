import type { BundleView } from '../bundle/view.ts';
import type { ServiceEntries } from '../facts/service-entries.ts';
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
