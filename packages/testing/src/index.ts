export { makeKey, publicKeyOf, signBy } from './keys.fixture.ts';
export { programPath } from './program.ts';
export { randomOf, replay, seed } from './random.ts';
export { atTier, inTurn, isShare, landing, reaches, runs, type Tier, tier, tiers } from './tier.ts';
