export { programPath } from './program.ts';
export { randomOf, replay, seed } from './random.ts';
export { atTier, inTurn, isShare, reaches, runs, type Tier, tier, tiers } from './tier.ts';
