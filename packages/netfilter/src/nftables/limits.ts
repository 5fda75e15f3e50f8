/** Of mode nftables. packages/bundle/README.md, "Mode nftables". */
export const nftLimits = {
  /** Endpoints of a list: a local list starts at this slot, half b at twice this. */
  endpointsMax: 32_768,
  /** Slots of a list with weights, or four for each endpoint if that is more: shares are exact to about a thousandth. */
  weightedSlotsMax: 1_024,
  /** The weight of an endpoint. */
  weightMax: 65_535,
  /** When more chains of lists have no frontend, they are removed. */
  unusedListsMax: 64,
  /** The time that a packet may need from one rule of the table to the next. */
  inFlightMs: 50,
  /** Elements in one command of a text: nft needs memory for each command. */
  elementsPerCommandMax: 20_000,
} as const;
