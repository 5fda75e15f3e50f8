/** Cells that fail today, each with what it waits for: one that passes fails the test, so that the list shrinks. */
export const knownBad: ReadonlyMap<string, string> = new Map([
  [
    'nft iptables: garbage ipset at boot',
    'a daemon that starts while ipset prints garbage does not serve when ipset is back; before these cells, too',
  ],
]);
