import type { LiveWorld } from '../live/world.ts';
import type { PacketState } from '../live/rule.ts';
import type { NftState } from '../nftables/state.ts';
import type { IpvsState } from '../virtual/values.ts';

/** The state of the node besides its rules. */
export interface World {
  /** In mode ipvs: the virtual servers, sets and addresses of the node. */
  readonly ipvs?: IpvsState | undefined;
  /** In mode nftables: the node's state. */
  readonly nft?: NftState | undefined;
  /** The tables of an observed node: besides, or in place of, a program. */
  readonly live?: LiveWorld | undefined;
  /** Default: the first packet of a connection. Others meet no translation, no virtual server and nothing of mode nftables. */
  readonly state?: PacketState;
  /** Of the node's interfaces. 127.0.0.0/8 and ::1 are always local. */
  readonly localAddresses: readonly string[];
  /** Names of the switches that are on while a program of layout `tree` is on probation: sets that contain every source. */
  readonly switches?: readonly string[];
}
