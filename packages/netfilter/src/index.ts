export * from './family.ts';
export * from './rules/mode-facts.ts';
export * from './modes.ts';
export * from './limits.ts';
export * from './per-object.ts';
export * from './sort-short.ts';
export * from './nearest.ts';
export * from './plural.ts';
export * from './problem.ts';
export { addAll } from './add-all.ts';
export * from './maps.ts';
export { commonEnds } from './common-ends.ts';
export * from './rules/address.ts';
export * from './rules/cidr.ts';
export * from './rules/fill.ts';
export * from './rules/kernel.ts';
export * from './rules/line.ts';
export { isInterface } from './rules/parts.ts';
export * from './rules/print.ts';
export * from './rules/read.ts';
export { reflexiveBytecode } from './rules/reflexive.ts';
export * from './rules/rule.ts';
export * from './rules/sysctl.ts';
export { targetOf } from './rules/words.ts';
export * from './virtual/line.ts';
export * from './virtual/read-ipset.ts';
export * from './virtual/read-ipvs.ts';
export * from './virtual/read-servers.ts';
export * from './rules/sets.ts';
export * from './virtual/state.ts';
export * from './virtual/values.ts';
export * from './link/chains.ts';
export * from './link/change.ts';
export * from './link/flat.ts';
export * from './rules/host-values.ts';
export * from './link/host.ts';
export { jumpedChains } from './link/jumps.ts';
export * from './layered.ts';
export * from './link/of-service.ts';
export * from './link/program.ts';
export * from './link/section.ts';
export * from './link/shared.ts';
export * from './link/text.ts';
export * from './link/tree/entries.ts';
export { stemOf } from './link/tree/names.ts';
export * from './link/tree/flatten.ts';
export { marksLate, withoutLateMarks } from './link/tree/in-place.ts';
export * from './link/tree/limits.ts';
export * from './link/tree/link.ts';
export * from './link/tree/linker.ts';
export * from './link/tree/memory.ts';
export * from './link/tree/program.ts';
export { replaceChains } from './link/tree/replace.ts';
export {
  addressOfEndpoint,
  affinitySeconds,
  calleeOf,
  destinationOf,
  endpointOf,
  frontendOf,
  matchedAddress,
  matchedPort,
  printFrontend,
  refuses,
  type ServiceFrontend,
} from './services/of-rule.ts';
export { choosesEndpoint } from './services/chain-names.ts';
export { sameLines } from './services/plain-rules.ts';
export { onAllNodes, type ServiceLines } from './services/all-nodes.ts';
export type { DescribedFrontend, TrafficPolicy } from './services/described.ts';
export { planeNameOf, planeOf, serviceChanges } from './services/planes.ts';
export * from './services/removal.ts';
export * from './services/services.ts';
export * from './services/addresses.ts';
export { healthCheckPortIn, localChoicesIn, localChoicesOf, opensOwnAddressAlone } from './services/local-endpoints.ts';
export * from './packet/packet.ts';
export * from './trace/world.ts';
export * from './trace/trace.ts';
export * from './live/world.ts';
export { ownerOf, ownerOfPolicy, type RuleOwner } from './live/owners.ts';
export { forwardAccepts, LiveTables } from './live/tables.ts';
export { iptablesTable, isProxysChain, readIptables } from './live/iptables.ts';
export { type TraceFlow, untouched } from './packet/flow.ts';
export type { Effort, Judge } from './live/judge.ts';
export { walkBase } from './live/walk.ts';
export { wordsOf } from './live/iptables-options.ts';
export { printStatements } from './live/nft-print.ts';
export { type Elements, elementsOf, type Json, objectOf } from './live/nft-values.ts';
export { conntrackPriority, matchesInterface, networkIn, portsIn } from './live/tests.ts';
export { type ListedTable, placesInTable, readLiveTable } from './live/nft.ts';
export { readLiveSets } from './live/sets.ts';
export {
  type BaseChain,
  type LiveHook,
  type LiveRule,
  type LiveSet,
  type LiveTable,
  type PacketState,
  type TraceNotes,
  traceNotes,
} from './live/rule.ts';
export { placeOfServer, placesIn } from './live/frontends.ts';
export * from './nftables/frontend.ts';
export * from './nftables/state.ts';
export * from './nftables/table.ts';
export { atLocalhost } from './nftables/localhost.ts';
export * from './nftables/elements.ts';
export * from './nftables/keep-slots.ts';
export { listChain, readListName } from './nftables/lists.ts';
export * from './nftables/scheduler.ts';
export * from './nftables/slots.ts';
export { nftLimits } from './nftables/limits.ts';
export * from './nftables/print.ts';
export * from './nftables/placement.ts';
export { changePlacement, createList, type PlacementChange } from './nftables/change.ts';
export * from './nftables/probation.ts';
export { familySuffix, nftFamily } from './rules/nft-family.ts';
export { type NftElement, readNftLine } from './nftables/read-line.ts';
export { frontendMark, NftMemory, nftNames, readNft, readNftFiles } from './nftables/read-state.ts';
export { differingFiles } from './virtual/differing-files.ts';
export { RunningTotal } from './link/running-total.ts';
export { inOnePiece } from './in-one-piece.ts';
export { disjoint, networkText } from './nftables/networks.ts';
export * from './diagnosis/causes.ts';
export * from './diagnosis/diagnosis.ts';
export * from './diagnosis/target.ts';
