import type { View } from '../view.ts';
import type { HeldServices } from './service-entries.ts';
import type { PolicySettings } from './settings.ts';

/** A bundle with the facts of its Services. */
export interface Side {
  readonly view: View;
  readonly services: HeldServices;
}

/** The input of rules about one bundle. */
export interface Question extends Side {
  readonly settings: PolicySettings;
}

/** The input of rules about changes. */
export interface ChangeQuestion extends Question {
  readonly base: Side;
}
