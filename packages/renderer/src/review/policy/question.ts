import type { View } from '../view.ts';
import type { HeldServices } from './held.ts';
import type { PolicySettings } from './settings.ts';

/** A bundle with what it holds. */
export interface Side {
  readonly view: View;
  readonly services: HeldServices;
}

/** What rules are asked about. */
export interface Question extends Side {
  readonly settings: PolicySettings;
}

/** What rules about a change are asked about. */
export interface ChangeQuestion extends Question {
  readonly base: Side;
}
