import { serversPlane } from './ipvs.ts';
import { tablePlane } from './nftables.ts';
import type { FlowPlane, NodeProgram } from './plane.ts';
import { rulesPlane } from './rules.ts';

/** The parts that a program has: its rules, and in modes ipvs and nftables what chooses endpoints beside them. */
export function planesOf({ ipvs, nft }: NodeProgram): readonly [FlowPlane, ...FlowPlane[]] {
  return [rulesPlane, ...(ipvs ? [serversPlane] : []), ...(nft ? [tablePlane] : [])];
}

/** The part that chooses endpoints. */
export const choosingPlaneOf = (program: NodeProgram): FlowPlane => planesOf(program).at(-1)!;
